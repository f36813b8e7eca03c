"""Training: data streams, objective, loop, evaluation. ``implicit.train`` is the function that trains.

- Evaluation: `evaluate`, `Evaluation`, `Convergence`.
- Data: `draw_batch`, `TokenBatch`, `Stream`.
- A step, as callbacks get it: `TrainingStep`.
- Weights of a run to begin with: `begin_from`.
- Warning: `ShortCurriculumWarning`.
"""

from implicit.training.evaluation import (
    Convergence as Convergence,
    Evaluation as Evaluation,
    evaluate as evaluate,
)
from implicit.training.progress import TrainingStep as TrainingStep
from implicit.training.streams import Stream as Stream, TokenBatch as TokenBatch, draw_batch as draw_batch
from implicit.training.train import begin_from as begin_from, ShortCurriculumWarning as ShortCurriculumWarning
