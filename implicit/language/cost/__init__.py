"""The cost of training a language model, by formula: operations, memory, and the time that follows from them.

python -m implicit.language.cost --utilisation 0.3
"""

from implicit.language.cost.memory import (
    Activations as Activations,
    WeightMemory as WeightMemory,
    layer_bytes as layer_bytes,
    state_bytes as state_bytes,
)
from implicit.language.cost.training import (
    Evaluation as Evaluation,
    Flops as Flops,
    TrainingCost as TrainingCost,
    outside_layers as outside_layers,
    published_phases as published_phases,
)
