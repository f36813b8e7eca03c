"""Everything that determines a training run.

- A run: `TrainConfig`, and `recipe`, which fills in what is known to be good for a task.
- Its groups: `Curriculum`, `OptimizerConfig`, `EvaluationConfig`.
"""

from implicit.config.curriculum import Curriculum as Curriculum
from implicit.config.recipes import recipe as recipe
from implicit.config.run import (
    EvaluationConfig as EvaluationConfig,
    OptimizerConfig as OptimizerConfig,
    TrainConfig as TrainConfig,
)
