"""Models trained on a few hard tokens of A5, tested on more and at few iterations."""

from paper_figures.figures.hard_tokens_in_training import TRAINING, hard_tokens
from paper_figures.measurements.hard_tokens import HardTrainingSettings

FIGURE = hard_tokens(
    "Few hard tokens in training, on A5",
    {
        **TRAINING,
        "task": "A5-generatorsxM",
        "d_model": 64,
        "d_state": 32,
        "head_size": 32,
        "length": 40,
        # as trials of seed 0 chose it; they also set decays of the heads, left out here (docs/log_archive.md)
        "random_starts": 0.0,
        "loss_until_error": False,
        "contraction_weight": 0.015,
        "contraction_scales": [0.1, 0.1],
        "contraction_power": 1.0,
        "carried_share": 0.75,
    },
    # fewer sequences in sweeps, which cost 2,048 evaluations per token where a fixed point is not reached
    HardTrainingSettings(seed=1, swept_sequences=16),
    floor=1 / 60,
)
