"""Accuracy against length on parity: implicit Mamba-2, explicit Mamba-2 and LSTM."""

from paper_figures import figure as pf

FIGURE = pf.Figure(
    title="Parity: train short, test long",
    section="State tracking",
    claim=pf.Claim(
        "one implicit Mamba-2 layer tracks a state, parity, beyond its training length; explicit ones do not",
        pf.IMPLICIT_ARE_RNNS,
        pf.ShareOfRuns(
            "accuracy@256",
            least=0.99,
            row=pf.where(model="implicit-mamba2"),
            controls=pf.where(model="mamba2"),
            at="256 tokens",
        ),
    ),
    runs=[
        pf.Grid({"model": ["implicit-mamba2"], "seed": range(5)}, {"task": "parity", "carried_share": 0.9}),
        pf.Grid(
            {"model": ["mamba2", "lstm"], "carried_share": [0.9, 0.0], "seed": range(3)}, {"task": "parity"}
        ),
    ],
    measure=(pf.accuracy_at(32, 64, 128, 256, 512, sequences=512),),
    panels=[pf.Lines("accuracy", chance=(0.5,), trained=(32,), ylim=(0.4, 1.04), equal=True)],
    layout=pf.Layout(columns=(1, 1), height=(3.2, 3.4), legend=(2, 1)),
)
