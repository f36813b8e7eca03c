"""The cost of training a language model, by formula: operations, memory, and the time that follows from them.

python -m implicit.language.cost --utilisation 0.3
"""

from implicit.language.cost.formulas import (
    Activations as Activations,
    Evaluation as Evaluation,
    Flops as Flops,
    TrainingCost as TrainingCost,
    WeightMemory as WeightMemory,
    layer_bytes as layer_bytes,
    outside_layers as outside_layers,
    published_phases as published_phases,
    state_bytes as state_bytes,
)
