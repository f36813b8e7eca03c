"""The models under one interface.

- Implicit: `ImplicitMamba2`, `ImplicitMamba3`, `ImplicitDeltaNet`, `ImplicitGatedDeltaNet`,
  `ImplicitGatedDeltaProduct`, `ImplicitTransformer`.
- Explicit: `Mamba2`, `Mamba3`, `DeltaNet`, `GatedDeltaNet`, `GatedDeltaProduct`, `PDSSM`, `Transformer`,
  `LSTM`, `SLSTM`, `GRU`, `Elman`.
- By name: `MODELS`, `model_names`, `model_class`, `size_names`, `build_model`.
- To write your own: `wrap`, `StepModel`, `SequenceModel`, `FixedPointModel`, `TorchRNN`, `ModelConfig`,
  `ModelOutput`.

The sizes of a model are the fields of its ``config_class``.

Example:
    >>> size_names("gru"), GRU.config_class(vocabulary_size=2, output_size=2).layers
    (('d_model', 'layers'), 1)
"""

from implicit.models.interface import FixedPointModel, ModelConfig, ModelOutput, SequenceModel
from implicit.models.registry import (
    PDSSM,
    DeltaNet,
    GatedDeltaNet,
    GatedDeltaProduct,
    ImplicitDeltaNet,
    ImplicitGatedDeltaNet,
    ImplicitGatedDeltaProduct,
    ImplicitMamba3,
    Mamba3,
)
from implicit.models.registry import ImplicitMamba2, Mamba2
from implicit.models.registry import MODELS, build_model, model_class, model_names, size_names
from implicit.models.torch_rnn import SLSTM
from implicit.models.step_model import StepModel, wrap
from implicit.models.torch_rnn import GRU, LSTM, Elman, TorchRNN
from implicit.models.registry import ImplicitTransformer, Transformer

__all__ = [
    "GRU",
    "LSTM",
    "MODELS",
    "PDSSM",
    "SLSTM",
    "DeltaNet",
    "Elman",
    "FixedPointModel",
    "GatedDeltaNet",
    "GatedDeltaProduct",
    "ImplicitDeltaNet",
    "ImplicitGatedDeltaNet",
    "ImplicitGatedDeltaProduct",
    "ImplicitMamba2",
    "ImplicitMamba3",
    "ImplicitTransformer",
    "Mamba2",
    "Mamba3",
    "ModelConfig",
    "ModelOutput",
    "SequenceModel",
    "StepModel",
    "TorchRNN",
    "Transformer",
    "build_model",
    "model_class",
    "model_names",
    "size_names",
    "wrap",
]
