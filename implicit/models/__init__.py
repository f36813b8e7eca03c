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

from implicit.models.interface import (
    FixedPointModel as FixedPointModel,
    ModelConfig as ModelConfig,
    ModelOutput as ModelOutput,
    SequenceModel as SequenceModel,
)
from implicit.models.registry import (
    MODELS as MODELS,
    PDSSM as PDSSM,
    DeltaNet as DeltaNet,
    GatedDeltaNet as GatedDeltaNet,
    GatedDeltaProduct as GatedDeltaProduct,
    ImplicitDeltaNet as ImplicitDeltaNet,
    ImplicitGatedDeltaNet as ImplicitGatedDeltaNet,
    ImplicitGatedDeltaProduct as ImplicitGatedDeltaProduct,
    ImplicitMamba2 as ImplicitMamba2,
    ImplicitMamba3 as ImplicitMamba3,
    ImplicitTransformer as ImplicitTransformer,
    Mamba2 as Mamba2,
    Mamba3 as Mamba3,
    Transformer as Transformer,
    build_model as build_model,
    model_class as model_class,
    model_names as model_names,
    size_names as size_names,
)
from implicit.models.step_model import StepModel as StepModel, wrap as wrap
from implicit.models.torch_rnn import (
    GRU as GRU,
    LSTM as LSTM,
    SLSTM as SLSTM,
    Elman as Elman,
    TorchRNN as TorchRNN,
)
