"""Ablations of training on S3: the recipe, the recipe without one part, and a curriculum as the paper's."""

from paper_figures import figure as pf

FIGURE = pf.Figure(
    title="Four ways to train on S3",
    section="Training",
    claim=pf.Claim(
        "implicit SSMs can be trained by a bounded phase, then free self-iterations with phantom gradients",
        pf.IMPLICIT_ARE_RNNS,
        pf.ShareOfRuns("accuracy@512", least=0.99, row="bounded, then free", at="512 tokens"),
    ),
    runs=pf.Variants(
        {"task": "S3", "model": "implicit-mamba2"},
        {
            "recipe": {},
            "from zero": {"random_starts": 0.0},
            "loss of all tokens": {"loss_until_error": False},
            "bounded, then free": {
                "free_gradient": "phantom",
                "random_starts": 0.0,
                "loss_until_error": False,
                "contraction_scales": [0.1, 0.1],
                "contraction_power": 1.0,
                "growth_accuracy": None,
                "start_length": 4,
                "length_growth_every": 125,
                "bounded_steps": 1000,
                "bounded_iterations": 6,
                "free_max_iterations": 24,
                "free_rtol": 0.02,
                "learning_rate": 1.5e-3,
                "carried_share": 0.0,
            },
        },
    ),
    measure=(pf.accuracy_at(32, 512, sequences=256), pf.AGREEMENT),
    panels=[
        pf.Marks("accuracy@512", "accuracy,\n512 tokens", chance=(1 / 6,), xlim=(-0.08, 1.08), ticks=(0, 1)),
        pf.Marks("agree", "modes\nagree", xlim=(-0.08, 1.08), ticks=(0, 1)),
        pf.Marks("updates", "training,\nupdates", ticks=(0, 750, 1500)),
    ],
    layout=pf.Layout(height=(2.0, 2.0)),
)
