"""The setting in which Schöne et al. trained on word problems, for experiments at full size on a GPU.

From the authors' public code (microsoft/implicit_languagemodels): one layer of width 256, batches of 512, an
epoch of 16,384 updates. What our models do not have is left out: dropout of 0.05, weight norm, tied
embeddings.
"""

from typing import Any

PUBLISHED_WIDTH = 256
PUBLISHED_MAMBA2: dict[str, Any] = {"d_model": PUBLISHED_WIDTH, "expand": 4, "d_state": 128, "head_size": 64}
"""Sizes of their Mamba-2, explicit and implicit."""

PUBLISHED_TRAINING: dict[str, Any] = {
    "batch_size": 512,
    "steps": 16384,
    "warmup_steps": 1638,
    "learning_rate": 1e-3,
    "betas": (0.9, 0.95),
    "gradient_clip": 0.25,
    "bounded_steps": 4005,
    "bounded_iterations": 4,
    "bounded_length": 0,
    "free_mode": "simultaneous",
    "free_max_iterations": 32,
    "free_rtol": 0.05,
    "free_gradient": "phantom",
    "phantom_steps": 4,
    "phantom_damping": 0.8,
    "random_starts": 0.0,
    "contraction_weight": 0.0,
    "loss_until_error": False,
    "carried_share": 0.0,
    "start_length": None,
    "growth_accuracy": None,
    "evaluate_every": 512,
    "evaluation_max_iterations": 200,
}
"""Theirs: sequences of one length, from no state; a bounded phase through four unrolled self-iterations, then
at most 32 to a relative tolerance of 0.05 and phantom gradients of four steps. What a recipe of ours has
beside it is left out, whatever the task."""

PUBLISHED_COURSE = (0, 100, 300, 1000, 2000, 3000, 4005, 4100, 4300, 5000, 6500, 8500, 12000)
"""Updates after which such a training is looked at: all of it, and closely where the free phase begins."""
PUBLISHED_LENGTH = 32
"""Of the sequences of the word problems, but for those with easy tokens."""
PUBLISHED_DELTA: dict[str, Any] = {"d_model": PUBLISHED_WIDTH, "heads": 4, "key_size": 64, "value_size": 64}
"""Sizes of delta rules as wide as their Mamba-2; the paper has none."""
PUBLISHED_ATTENTION: dict[str, Any] = {"d_model": PUBLISHED_WIDTH, "heads": 4, "head_size": 64}
"""Sizes of attention as wide."""
