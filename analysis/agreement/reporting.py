"""What `analysis.agreement` says in the terminal and in the report."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from analysis.agreement.measurement import DEMANDED, AgreementAnalysis
from analysis.framework.markdown import red
from analysis.framework.markdown import table as markdown_table
from analysis.framework.report_section import Entry, ReportSection
from analysis.framework.terminal import number
from implicit.runs.loading import Run


def tables(found: AgreementAnalysis) -> list[Table | Text | str]:
    """Return the shares, and in red what falls short of the demand, for the terminal.

    Example:
        >>> from analysis.agreement.measurement import analyse
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity"), sequences=1, length=4, examples=0)
        >>> [column.header for column in tables(found)[0].columns], tables(found)[0].row_count
        (['share of', 'tokens', 'sequences'], 4)
    """
    numbers = found.numbers()
    table = Table(title=found.run.title, title_justify="left")
    table.add_column("share of")
    table.add_column("tokens", justify="right")
    table.add_column("sequences", justify="right")
    table.add_row("same fixed point", f"{numbers['tokens']:.3%}", f"{numbers['sequences']:.3%}")
    table.add_row(
        "different fixed points", f"{found.shares['differ']:.3%}", f"{found.differs.any(axis=1).mean():.3%}"
    )
    table.add_row(
        "not converged", f"{found.shares['unconverged']:.3%}", f"{(~found.converged).any(axis=1).mean():.3%}"
    )
    table.add_row("same answer", f"{numbers['decoded_tokens']:.3%}", f"{numbers['decoded_sequences']:.3%}")
    distances = (
        f"relative distance of the same fixed points at most {number(numbers['largest_distance_of_same'])}, "
        f"of different ones at least {number(numbers['smallest_distance_of_different'])}; tolerance "
        f"{number(numbers['tolerance']['median'])} in the median"
    )
    several = sum(len(search.fixed_points) > 1 for search in found.searches)
    lines: list[Table | Text | str] = [table, distances]
    if found.searches:
        lines.append(f"{several} of {len(found.searches)} example tokens have more than one fixed point")
    if not found.is_demanded:
        lines.append(Text(f"Less than {DEMANDED:.1%} of the tokens agree: {found.sentence}", "bold red"))
        lines += [
            Text(f"  {search.line(found.state_names)}", "red")
            for search in found.searches
            if search.reason != "sample"
        ]
    return lines


def content(run: Run, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``report.json`` holds of the numbers: all, and the names of the classes.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> content(load_run("parity"), {"tokens": 1.0})
        {'agreement': {'tokens': 1.0}, 'state_names': ('0', '1')}
    """
    return {"agreement": result, "state_names": run.task.target_names}


def paragraphs(name: str, entry: Entry) -> Sequence[str]:
    """Return the finding as Markdown, in red where the modes agree at less than is demanded.

    Example:
        >>> agreement = {"sentence": "both agree", "is_demanded": True, "fixed_points": []}
        >>> paragraphs("mine", {"agreement": agreement, "state_names": []})[1]
        'Both agree.'
    """
    found = entry["agreement"]
    sentence = found["sentence"][0].upper() + found["sentence"][1:]
    several = [search for search in found["fixed_points"] if len(search["fixed_points"]) > 1]
    lines = [
        "### Do the two modes agree?",
        red(sentence) if not found["is_demanded"] else f"{sentence}.",
        f"Of {len(found['fixed_points'])} tokens at which other fixed points were searched, "
        f"{len(several)} have more than one.",
    ]
    shown = several if found["is_demanded"] else found["fixed_points"]
    if shown:
        lines.append(markdown_table(*_fixed_points(shown, entry["state_names"])))
    return [*lines, f"![Agreement of the modes of {name}](analysis/{name}/agreement.png)"]


def _fixed_points(
    searches: Iterable[Mapping[str, Any]], names: list[str]
) -> tuple[list[str], list[list[str]]]:
    header = [
        "sequence",
        "position",
        "why",
        "right answer",
        "fixed point decodes",
        "starts",
        "reached by",
        "spectral radius",
    ]
    rows = []
    for search in searches:
        where = [str(search["sequence"]), str(search["position"]), search["reason"], names[search["label"]]]
        rows += [
            [
                *where,
                names[point["answer"]],
                str(point["starts"]),
                ", ".join(point["reached_by"]) or "random starts or zero only",
                f"{point['spectral_radius']:.3f}",
            ]
            for point in search["fixed_points"]
        ]
        if search["unconverged"]:
            rows.append([*where, "did not converge", str(search["unconverged"]), "–", "–"])
    return header, rows


def warnings(name: str, entry: Entry) -> Sequence[str]:
    """Return the sentence that stands in red at the top of the report, if the modes do not agree.

    Example:
        >>> warnings("mine", {"agreement": {"is_demanded": False, "demanded": 0.999}})
        ['mine: less than 99.9% of the tokens agree between the modes']
    """
    found = entry["agreement"]
    if found["is_demanded"]:
        return []
    return [f"{name}: less than {found['demanded']:.1%} of the tokens agree between the modes"]


def _lines(entry: Entry) -> Sequence[Text]:
    found = entry["agreement"]
    return [Text(found["sentence"], "" if found["is_demanded"] else "bold red")]


LIMITS = """\
- **Agreement** of the two modes is measured on the given sequences. The search for other fixed points
  starts from a few random latents: a fixed point that repels the iteration or whose basin was not hit is not
  found."""

SECTION = ReportSection(
    key="agreement",
    content=content,
    settings={
        "sequences": "agreement_sequences",
        "length": "mode_length",
        "max_iterations": "max_iterations",
        "seed": "seed",
    },
    priority=3,
    warnings=warnings,
    paragraphs=paragraphs,
    lines=_lines,
    limits=LIMITS,
)
