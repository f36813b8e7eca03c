"""What training a language model takes, by formula: operations, memory, and the time that follows from them.

python -m implicit.language.cost --utilisation 0.3
"""

from implicit.language.cost.memory import Activations, WeightMemory, layer_bytes, state_bytes
from implicit.language.cost.training import (
    Evaluation,
    Flops,
    TrainingCost,
    outside_layers,
    published_phases,
    tokens_per_second,
)

__all__ = [
    "Activations",
    "Evaluation",
    "Flops",
    "TrainingCost",
    "WeightMemory",
    "layer_bytes",
    "outside_layers",
    "published_phases",
    "state_bytes",
    "tokens_per_second",
]
