"""Implicit state-space models: the models, their training, and the run folders that keep them.

- Train: `recipe`, `train`, `TrainConfig`, `evaluate`, `Evaluation`.
- Load: `load_run`, `Run`.
- Models: `ImplicitMamba2`, `ImplicitMamba3`, `ImplicitDeltaNet`, `ImplicitGatedDeltaNet`,
  `ImplicitGatedDeltaProduct`, `ImplicitTransformer`, `Mamba2`, `Mamba3`, `DeltaNet`, `GatedDeltaNet`,
  `GatedDeltaProduct`, `PDSSM`, `Transformer`, `LSTM`, `GRU`, `Elman`.
- Make one by name: `model_names`, `build_model`.
- Write your own: `StepModel`, `SequenceModel`, `FixedPointModel`, `ModelConfig`, `ModelOutput`, `Cell`,
  `CellSizes`, `explicit_model`, `implicit_model`.
- How fixed points are sought: `Solve`, `Windowed`, `Stopping`, `DampedPicard`, `Anderson`, `Status`,
  `NotConvergedWarning`.
- Gradient rules: `Phantom`, `Implicit`, `FactoredImplicit`, `Unrolled`.
- Sizes of models: `ImplicitMamba2Config`, `Mamba2Config`, `LSTMConfig`.
- Sub-packages: `cells` (recurrent layers), `models` (the models), `modes` (in which order tokens are
  solved), `fixed_point` (solvers), `gradients` (gradient rules), `ops` (operations with fast forms and
  kernels), `enclosed` (models on balls, for proofs), `config` (what determines a run), `training` (the
  loop), `runs` (run folders), `compiled` (models computed from automata).

The names are imported when they are first used, so that ``import implicit`` stays light. ``train`` is
both the function that trains and the module of the command ``python -m implicit.train``, which can be called.

Example:
    >>> import torch
    >>> import implicit
    >>> implicit.load_run("parity").model(torch.tensor([[1, 0, 1, 1]])).argmax(-1)
    tensor([[1, 1, 0, 1]])
    >>> model = implicit.GRU(implicit.GRU.config_class(vocabulary_size=2, output_size=2, d_model=8))
    >>> model.parameter_count()
    466
"""

from implicit_ssm import __version__ as __version__
from implicit_ssm import require

require("automata", "theory")

from typing import TYPE_CHECKING

from automata.lazy_names import lazy_names

if TYPE_CHECKING:
    from implicit.cells import Cell, CellSizes
    from implicit.config.recipes import recipe
    from implicit.config.run import TrainConfig
    from implicit.fixed_point import Anderson, DampedPicard, NotConvergedWarning, Status, Stopping
    from implicit.gradients import FactoredImplicit, Implicit, Phantom, Unrolled
    from implicit.models.delta_rule import (
        DeltaNet,
        GatedDeltaNet,
        GatedDeltaProduct,
        ImplicitDeltaNet,
        ImplicitGatedDeltaNet,
        ImplicitGatedDeltaProduct,
    )
    from implicit.models.elman import Elman
    from implicit.models.explicit import explicit_model
    from implicit.models.gru import GRU
    from implicit.models.implicit_model import implicit_model
    from implicit.models.interface import FixedPointModel, ModelConfig, ModelOutput, SequenceModel
    from implicit.models.lstm import LSTM, LSTMConfig
    from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config, Mamba2, Mamba2Config
    from implicit.models.mamba3 import ImplicitMamba3, Mamba3
    from implicit.models.pd_ssm import PDSSM
    from implicit.models.registry import build_model, model_names
    from implicit.models.step_model import StepModel
    from implicit.models.transformer import ImplicitTransformer, Transformer
    from implicit.modes import Solve, Windowed
    from implicit.runs.loading import Run, load_run
    from implicit.training.evaluation import Evaluation, evaluate
    from implicit.training.train import train

_HOMES = {
    "GRU": "implicit.models.gru",
    "LSTM": "implicit.models.lstm",
    "PDSSM": "implicit.models.pd_ssm",
    "Anderson": "implicit.fixed_point",
    "Cell": "implicit.cells",
    "CellSizes": "implicit.cells",
    "DampedPicard": "implicit.fixed_point",
    "DeltaNet": "implicit.models.delta_rule",
    "Elman": "implicit.models.elman",
    "Evaluation": "implicit.training.evaluation",
    "FactoredImplicit": "implicit.gradients",
    "FixedPointModel": "implicit.models.interface",
    "GatedDeltaNet": "implicit.models.delta_rule",
    "GatedDeltaProduct": "implicit.models.delta_rule",
    "Implicit": "implicit.gradients",
    "ImplicitDeltaNet": "implicit.models.delta_rule",
    "ImplicitGatedDeltaNet": "implicit.models.delta_rule",
    "ImplicitGatedDeltaProduct": "implicit.models.delta_rule",
    "ImplicitMamba2": "implicit.models.mamba2",
    "ImplicitMamba2Config": "implicit.models.mamba2",
    "ImplicitMamba3": "implicit.models.mamba3",
    "LSTMConfig": "implicit.models.lstm",
    "Mamba2": "implicit.models.mamba2",
    "Mamba2Config": "implicit.models.mamba2",
    "Mamba3": "implicit.models.mamba3",
    "ModelConfig": "implicit.models.interface",
    "ModelOutput": "implicit.models.interface",
    "NotConvergedWarning": "implicit.fixed_point",
    "Phantom": "implicit.gradients",
    "Run": "implicit.runs.loading",
    "SequenceModel": "implicit.models.interface",
    "Solve": "implicit.modes",
    "Status": "implicit.fixed_point",
    "StepModel": "implicit.models.step_model",
    "Stopping": "implicit.fixed_point",
    "TrainConfig": "implicit.config.run",
    "ImplicitTransformer": "implicit.models.transformer",
    "Transformer": "implicit.models.transformer",
    "Unrolled": "implicit.gradients",
    "Windowed": "implicit.modes",
    "build_model": "implicit.models.registry",
    "evaluate": "implicit.training.evaluation",
    "explicit_model": "implicit.models.explicit",
    "implicit_model": "implicit.models.implicit_model",
    "load_run": "implicit.runs.loading",
    "model_names": "implicit.models.registry",
    "recipe": "implicit.config.recipes",
    "train": "implicit.training.train",
}

__all__ = [
    "GRU",
    "LSTM",
    "PDSSM",
    "Anderson",
    "Cell",
    "CellSizes",
    "DampedPicard",
    "DeltaNet",
    "Elman",
    "Evaluation",
    "FactoredImplicit",
    "FixedPointModel",
    "GatedDeltaNet",
    "GatedDeltaProduct",
    "Implicit",
    "ImplicitDeltaNet",
    "ImplicitGatedDeltaNet",
    "ImplicitGatedDeltaProduct",
    "ImplicitMamba2",
    "ImplicitMamba2Config",
    "ImplicitMamba3",
    "ImplicitTransformer",
    "LSTMConfig",
    "Mamba2",
    "Mamba2Config",
    "Mamba3",
    "ModelConfig",
    "ModelOutput",
    "NotConvergedWarning",
    "Phantom",
    "Run",
    "SequenceModel",
    "Solve",
    "Status",
    "StepModel",
    "Stopping",
    "TrainConfig",
    "Transformer",
    "Unrolled",
    "Windowed",
    "build_model",
    "evaluate",
    "explicit_model",
    "implicit_model",
    "load_run",
    "model_names",
    "recipe",
    "train",
]

_MODULES = (
    "cells",
    "compiled",
    "config",
    "enclosed",
    "fixed_point",
    "gradients",
    "models",
    "modes",
    "ops",
    "runs",
    "training",
)

__getattr__, __dir__ = lazy_names(__name__, _HOMES, _MODULES)
