"""Implicit state-space models: the models, their training, and the run folders that keep them.

The names below are imported when they are first used, so that ``import implicit`` stays light. ``train`` is
both the function that trains and the module of the command ``python -m implicit.train``, which can be called.
"""

from implicit_ssm import __version__ as __version__
from implicit_ssm import require

require("automata", "theory")

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from implicit.config.recipes import recipe
    from implicit.config.run import TrainConfig
    from implicit.models.interface import ModelConfig, ModelOutput, SequenceModel
    from implicit.models.lstm import LSTM, LSTMConfig
    from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config, Mamba2, Mamba2Config
    from implicit.models.registry import build_model
    from implicit.modes import Solve
    from implicit.runs.loading import Run, load_run
    from implicit.training.evaluation import Evaluation, evaluate
    from implicit.training.train import train

_HOMES = {
    "LSTM": "implicit.models.lstm",
    "LSTMConfig": "implicit.models.lstm",
    "Evaluation": "implicit.training.evaluation",
    "ImplicitMamba2": "implicit.models.mamba2",
    "ImplicitMamba2Config": "implicit.models.mamba2",
    "Mamba2": "implicit.models.mamba2",
    "Mamba2Config": "implicit.models.mamba2",
    "ModelConfig": "implicit.models.interface",
    "ModelOutput": "implicit.models.interface",
    "Run": "implicit.runs.loading",
    "SequenceModel": "implicit.models.interface",
    "Solve": "implicit.modes",
    "TrainConfig": "implicit.config.run",
    "build_model": "implicit.models.registry",
    "evaluate": "implicit.training.evaluation",
    "load_run": "implicit.runs.loading",
    "recipe": "implicit.config.recipes",
    "train": "implicit.training.train",
}

__all__ = [
    "LSTM",
    "Evaluation",
    "ImplicitMamba2",
    "ImplicitMamba2Config",
    "LSTMConfig",
    "Mamba2",
    "Mamba2Config",
    "ModelConfig",
    "ModelOutput",
    "Run",
    "SequenceModel",
    "Solve",
    "TrainConfig",
    "build_model",
    "evaluate",
    "load_run",
    "recipe",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
