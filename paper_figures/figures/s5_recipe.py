"""Ablations of training on S5: the recipe, and the recipe with one part taken out or exchanged."""

from paper_figures import figure as pf

FIGURE = pf.Figure(
    title="What the recipe of S5 needs",
    section="Training",
    claim=pf.Claim(
        "trained on at most 40 tokens, one implicit layer keeps S5 for 1,024 tokens in four seeds of five",
        pf.OURS,
        pf.ShareOfRuns("accuracy@1024", least=0.99, row="recipe", reproduced=0.8, at="1,024 tokens"),
    ),
    runs=pf.Variants(
        {"task": "S5-generators", "model": "implicit-mamba2"},
        {
            "recipe": {},
            "no state passing": {"carried_share": 0.0},
            "pass wrong states, too": {"carried_right": False},
            "4 phantom steps": {"free_gradient": "phantom"},
            "100 final updates": {"final_steps": 100},
            "tolerance 0.05": {"free_rtol": 0.05},
            "no penalty": {"contraction_weight": 0.0},
            "Muon": {"algorithm": "Muon"},
            "lengths by update": {  # about as fast as the recipe's grow
                "growth_accuracy": None,
                "length_growth_every": 110,
                "steps": 1600,
                "carried_after": 1100,
            },
        },
        seeds={"recipe": 5, None: 3},
    ),
    measure=(pf.accuracy_at(40, 256, 1024, sequences=512, rtol=0.01), pf.AGREEMENT),
    panels=[
        pf.Marks(
            "accuracy@1024", "accuracy,\n1,024 tokens", chance=(1 / 120,), xlim=(-0.08, 1.08), ticks=(0, 1)
        ),
        pf.Marks("agree", "modes\nagree", xlim=(-0.08, 1.08), ticks=(0, 1)),
        pf.Marks("updates", "training,\nupdates", ticks=(0, 3000)),
    ],
    layout=pf.Layout(height=(3.2, 3.2)),
)
