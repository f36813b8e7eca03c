"""What `analysis.belief` says in the terminal."""

from collections.abc import Sequence

from rich.table import Table

from analysis.belief.measurement import BeliefAnalysis, RunBelief
from analysis.framework.terminal import number


def tables(found: BeliefAnalysis) -> list[Table | str]:
    """Return tables with a line for every run and length, and what is to be known of them.

    Example:
        >>> from analysis.belief.measurement import analyse
        >>> from implicit.runs.loading import load_run
        >>> run = load_run("lazy-swaps-gated-deltanet")
        >>> shown = tables(analyse(run, sequences=4, multiples=(1,), probe=False))
        >>> [column.header for column in shown[0].columns][:3]
        ['run', 'length', 'KL']
    """
    return [
        _of_predictions(found),
        _of_beliefs(found),
        _of_rates(found),
        f"±: {found.settings.confidence:.0%} intervals over {found.settings.sequences} sequences",
        *(
            f"{result.run.name}: no belief was decoded: {result.left_out}"
            for result in found.runs
            if result.left_out
        ),
        *(
            f"{result.run.name}: the state was read through a fixed random projection to "
            f"{result.features.size} numbers (seed {found.settings.probe_seed})"
            for result in found.runs
            if result.features is not None and result.features.projected
        ),
        *(
            f"{result.run.name}: {result.unconverged:.2%} of the tokens have no converged fixed point, and "
            "later ones rest on them; raise max_iterations or loosen rtol"
            for result in found.runs
            if result.unconverged
        ),
    ]


def _of_predictions(found: BeliefAnalysis) -> Table:
    table = _table(
        "predictions, from the length before to this one: KL(exact ‖ model) in nats, accuracy, that of the "
        "exact filter, and log loss above its own",
        ("length", "KL", "accuracy", "Bayes", "excess"),
    )
    for result in found.runs:
        quantities = [
            result.predictions.estimate(name, result.lengths, found.settings.confidence)
            for name in ("kl", "right", "best", "excess")
        ]
        for length in result.lengths:
            kl, right, best, excess = (quantity[length] for quantity in quantities)
            table.add_row(
                result.run.name, str(length), kl.cell, number(right.mean), number(best.mean), excess.cell
            )
    return table


def _of_beliefs(found: BeliefAnalysis) -> Table:
    table = _table(
        "decoded beliefs: total variation from the exact one, and KL(exact ‖ decoded), nats; one step: from "
        "the Bayes update of the one decoded a token before; mean: of a constant belief from the exact one",
        ("length", "decoded", "KL", "one step", "mean"),
    )
    for result in found.runs:
        for length, decoded in result.decoded.items():
            table.add_row(
                result.run.name,
                str(length),
                decoded.distance.cell,
                number(decoded.divergence.mean),
                decoded.inconsistency.cell,
                number(decoded.constant.mean),
            )
    return table


def _table(title: str, headings: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("run", overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _of_rates(found: BeliefAnalysis) -> Table:
    table = _table(
        "rates per token, in nats: of the norm of each layer's state, and of the mass of the linear filter; "
        "linear: in its own state; gone: tokens after which a norm is 0 or overflows",
        ("layer", "linear", "log norm", "gone", "log mass"),
    )
    for result in found.runs:
        for cells in _rate_rows(result):
            table.add_row(result.run.name, *cells, result.mass.fitted.cell)
    return table


def _rate_rows(result: RunBelief) -> list[tuple[str, str, str, str]]:
    if result.norms is None:
        return [("–", "no, it grows", "–", "–")]
    linear = "yes" if result.norms.linear else "no"
    return [
        (str(layer), linear, rate.cell, "–" if end is None else str(end))
        for layer, (rate, end) in enumerate(
            zip(result.norms.rates(result.settings.confidence), result.norms.vanished(), strict=True)
        )
    ]
