"""Everything that determines a training run.

- A run: `TrainConfig`, and `recipe`, which fills in what is known to be good for a task.
- Its groups: `Curriculum`, `OptimizerConfig`, `EvaluationConfig`.
"""

from implicit.config.curriculum import Curriculum
from implicit.config.recipes import recipe
from implicit.config.run import EvaluationConfig, OptimizerConfig, TrainConfig

__all__ = ["Curriculum", "EvaluationConfig", "OptimizerConfig", "TrainConfig", "recipe"]
