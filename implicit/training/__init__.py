"""Training: data streams, objective, loop, evaluation. ``implicit.train`` is the function that trains.

- Evaluation: `evaluate`, `Evaluation`, `Convergence`.
- Data: `draw_batch`, `TokenBatch`, `Stream`.
- Warning: `ShortCurriculumWarning`.
"""

from implicit.training.evaluation import Convergence, Evaluation, evaluate
from implicit.training.streams import Stream, TokenBatch, draw_batch
from implicit.training.train import ShortCurriculumWarning

__all__ = [
    "Convergence",
    "Evaluation",
    "ShortCurriculumWarning",
    "Stream",
    "TokenBatch",
    "draw_batch",
    "evaluate",
]
