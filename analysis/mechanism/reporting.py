"""What `analysis.mechanism` says in the terminal."""

from rich.table import Table

from analysis.framework.terminal import number
from analysis.mechanism.measurement import MechanismAnalysis, RunMechanism

MEANING = (
    "held in: the part that takes 90% of the answers with it when it is exchanged with that of another "
    "word (taken: at the first and the last token after that); codes: means of that part after words that "
    "lead to an automaton state and end alike; dimension: their participation ratio; unevenness: spread "
    "of their distances over the mean, 0 for one-hot codes; reliability: correlation of the distances of "
    "two halves of the words; share of 4: of the variance of the codes in the irreducible representation "
    "of 4 dimensions (in brackets that of one-hot codes), with their dimension in it, 4 if it is there "
    "once; distances by words, by renaming: the share of the differences between them that reading a "
    "word, or a renaming that the automaton does not notice, keeps; turned: the share of the variance "
    "that one orthogonal matrix for each token explains, in the directions that hold 95% of it; written: "
    "the share of the codes in the recurrent state that the last token wrote; left: of an error of 1% of "
    "the way to another state (an affine layer leaves 1); alignment: linear CKA of the codes, in brackets "
    "what random names give, mean and 95% quantile. All of it is measured on some words; it shows where "
    "mechanisms differ and does not prove that they are the same."
)


def tables(found: MechanismAnalysis) -> list[Table | str]:
    """Return quantities as rows and runs as columns, and how alike the codes are.

    Example:
        >>> from analysis.mechanism.measurement import compare
        >>> from implicit.runs.loading import load_run
        >>> found = compare([load_run("parity")], sequences=4, length=8, pairs=8, follow=4, states=2)
        >>> table = tables(found)[0]
        >>> [column.header for column in table.columns], list(table.columns[1].cells)[0]
        (['quantity', 'parity'], 'conv')
    """
    table = Table(title="mechanism", title_justify="left")
    table.add_column("quantity")
    for run in found.runs:
        table.add_column(run.run.name, justify="right", overflow="fold")
    columns = [_rows(run, found.chance) for run in found.runs]
    for name in dict.fromkeys(name for column in columns for name in column):
        table.add_row(name, *(column.get(name, "–") for column in columns))
    pairs = [
        f"{found.runs[one].run.name} and {found.runs[other].run.name}: distances of the codes correlate by "
        f"{number(likeness.distances)}; alignment {likeness.alignment:.3f} "
        f"({', '.join(f'{value:.3f}' for value in likeness.by_chance)})"
        for (one, other), likeness in found.likeness.items()
    ]
    sentences = [f"{run.run.name}: {run.sentence}." for run in found.runs]
    unconverged = [
        f"{run.run.name}: {1 - run.share_converged:.2%} of the fixed points on the way were not found"
        for run in found.runs
        if run.share_converged < 1
    ]
    return [table, MEANING, *sentences, *pairs, *unconverged]


def _rows(run: RunMechanism, chance: dict[str, float]) -> dict[str, str]:
    codes, dynamics, geometry = run.held, run.dynamics, run.geometry[run.coded_in]
    rows = {"held in": run.kept_in}
    for kind, swap in run.swaps.items():
        rows[f"taken by {kind}"] = f"{swap.first:.1%}, {swap.last:.1%}"
    for kind in run.swaps:
        rows[f"variance between codes, {kind}"] = f"{run.codes[kind].between:.1%}"
    rows |= {
        "dimension of the codes": f"{codes.dimension:.1f} of {len(run.classes) - 1}",
        "directions for 90%": f"{codes.directions_for(0.9)}",
        "unevenness": number(codes.unevenness),
        "reliability": number(codes.reliability),
        **{
            f"share of {name} (equal: {chance[name]:.1%}), dimension": (
                f"{share:.1%}, {number(geometry.dimensions[name])}"
            )
            for name, share in geometry.shares.items()
        },
        "distances by words": number(geometry.by_words),
        "distances by renaming": number(geometry.by_renaming),
        "turned by tokens": number(geometry.turned),
        "written": number(dynamics.written),
        "left after one token": number(dynamics.left_after_one),
        "left at last": number(dynamics.left_after_all),
        "iterations per token": "–" if run.iterations is None else f"{run.iterations:.1f}",
        "norm of ∂zΦ": number(dynamics.contraction),
        "second term / direct": number(dynamics.second_term),
        "rank of the second term": number(dynamics.second_rank),
    }
    if dynamics.decay is not None:
        rows["decay: 5%, 50%, 95%"] = ", ".join(number(value) for value in dynamics.decay)
    return rows
