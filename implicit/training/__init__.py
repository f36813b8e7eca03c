"""Training: data streams, objective, loop, evaluation. ``implicit.train`` is the function that trains.

- Evaluation: `evaluate`, `Evaluation`, `Convergence`.
- Data: `draw_batch`, `TokenBatch`, `Stream`.
- A step, as callbacks get it: `TrainingStep`.
- Weights of a run to begin with: `begin_from`.
- Warning: `ShortCurriculumWarning`.
"""

from implicit.training.evaluation import Convergence, Evaluation, evaluate
from implicit.training.train import begin_from
from implicit.training.progress import TrainingStep
from implicit.training.streams import Stream, TokenBatch, draw_batch
from implicit.training.train import ShortCurriculumWarning

__all__ = [
    "Convergence",
    "Evaluation",
    "ShortCurriculumWarning",
    "Stream",
    "TokenBatch",
    "TrainingStep",
    "begin_from",
    "draw_batch",
    "evaluate",
]
