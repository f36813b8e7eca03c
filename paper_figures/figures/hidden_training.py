"""Three variables whose swaps are seen but may fail unseen: grids of training runs."""

from typing import Any

from paper_figures.figures.repl_training import NOT_REFLECTING, REFLECTING, seeds_of

TASK = "likely-swaps-3-reveals"
"""A swap happens nine times in ten; one event in four is a reveal of one variable, none of all of them.

An event is a swap, of one token, or a reveal, of two: what is asked, and the value."""
TRAINED_LENGTH = 64

TRAINING: dict[str, Any] = {
    "task": TASK,
    "d_model": 64,
    "length": TRAINED_LENGTH,
    "batch_size": 64,
    "steps": 1200,
    "start_length": 8,
    "length_growth": 8,
    "length_growth_every": 100,
    "learning_rate": 3e-3,
    "gradient_clip": 1.0,
    "carried_share": 0.0,
    "bounded_steps": 0,
    "bounded_length": 8,
    "bounded_iterations": 8,
    "free_max_iterations": 40,
    "free_rtol": 0.01,
    "free_gradient": "implicit",
    "contraction_weight": 0.003,
    "evaluation_rtol": 0.01,
    "evaluation_max_iterations": 100,
    "evaluation_sequences": 64,
    "evaluate_every": 200,
}
"""The same sequences for every model of a seed: their length follows the number of the update."""

GRIDS = seeds_of(
    {"model": "deltanet", "layers": 2, **REFLECTING},
    {"model": "gated-deltanet", "layers": 2, **REFLECTING},
    {"model": "mamba2", "layers": 2},
    {"model": "lstm", "layers": 1, "d_model": 128},
    {"model": "implicit-mamba2", "layers": 1, "gradient_clip": 0.25},
    {"model": "deltanet", "layers": 2, **NOT_REFLECTING},
    {"model": "gated-deltaproduct", "layers": 2, **REFLECTING},
    {"model": "transformer", "layers": 2},
    **TRAINING,
)
"""Models whose layers are each linear in their state, and others: LSTM, implicit Mamba-2, Transformer."""
