"""Hidden swaps sought against each model: its divergence from the posterior on the worst rounds found."""

import numpy as np

from paper_figures import figure as pf
from paper_figures.families import family, look
from paper_figures.figures.hidden_swaps import GRIDS, NOT_LINEAR, RIVALS
from paper_figures.measurements.beliefs import AdversarySettings, worst_found


def _judge(rows: pf.Rows) -> pf.Verdict:
    """Compare the best linear model with LSTM and implicit Mamba-2 on the worst rounds, means over runs.

    Reproduced if it is at least twice as far from the posterior as both, on likely values and on any; not
    reproduced if on both it is nearer than either; partly otherwise.
    """
    told, nearer, far = [], [], []
    for kind in ("likely", "any"):
        mean = {row.label: float(np.mean(row.each(kind))) for row in rows}
        rivals = [mean[name] for name in RIVALS]
        linear = min(value for name, value in mean.items() if name not in NOT_LINEAR)
        nearer.append(linear <= min(rivals))
        far.append(linear >= 2 * max(rivals))
        told.append(f"{kind} values: " + ", ".join(f"{name} {value:.3f}" for name, value in mean.items()))
    because = f"KL per reveal on the worst rounds, means over runs, in nats: {'; '.join(told)}"
    return pf.graded(all(far), not all(nearer), because)


FIGURE = pf.Figure(
    title="Sequences sought against each belief",
    section="Sessions and beliefs",
    claim=pf.Claim(
        "there are adversarial sequences on which linear RNNs lose the belief (as the paper says of one "
        "representation), and non-linear ones far less",
        pf.CODE_AND_LINEAR_RNNS,
        _judge,
    ),
    runs=GRIDS,
    measure=(pf.Measurement("worst_rounds", worst_found, AdversarySettings()),),
    label=family,
    looks=look,
    panels=[
        pf.Marks(kind, "KL per\nreveal\n(nats)", title=title, log=True, xlim=(0.006, 6), ticks=(0.01, 1))
        for kind, title in (
            ("random", "random\nrounds"),
            ("likely", "worst,\nlikely"),
            ("any", "worst,\nany"),
        )
    ],
    layout=pf.Layout(height=(2.8, 2.8)),
)
