"""Implicit state-space models: the models, their training, and the run folders that keep them.

The names below are imported when they are first used, so that ``import implicit`` stays light. ``train`` is
both the function that trains and the module of the command ``python -m implicit.train``, which can be called.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from implicit.config.recipes import recipe
    from implicit.config.run import TrainConfig
    from implicit.models.baselines import LSTM, LSTMConfig, Mamba2, Mamba2Config
    from implicit.models.implicit_mamba2 import ImplicitMamba2, ImplicitMamba2Config
    from implicit.models.interface import SequenceModel
    from implicit.models.registry import build_model
    from implicit.runs.loading import Run, load_run
    from implicit.training.evaluation import Evaluation, evaluate
    from implicit.training.train import train

__all__ = [
    "LSTM",
    "Evaluation",
    "ImplicitMamba2",
    "ImplicitMamba2Config",
    "LSTMConfig",
    "Mamba2",
    "Mamba2Config",
    "Run",
    "SequenceModel",
    "TrainConfig",
    "build_model",
    "evaluate",
    "load_run",
    "recipe",
    "train",
]

_HOMES = {
    "LSTM": "implicit.models.baselines",
    "LSTMConfig": "implicit.models.baselines",
    "Mamba2": "implicit.models.baselines",
    "Mamba2Config": "implicit.models.baselines",
    "Evaluation": "implicit.training.evaluation",
    "evaluate": "implicit.training.evaluation",
    "ImplicitMamba2": "implicit.models.implicit_mamba2",
    "ImplicitMamba2Config": "implicit.models.implicit_mamba2",
    "recipe": "implicit.config.recipes",
    "build_model": "implicit.models.registry",
    "Run": "implicit.runs.loading",
    "load_run": "implicit.runs.loading",
    "SequenceModel": "implicit.models.interface",
    "TrainConfig": "implicit.config.run",
    "train": "implicit.training.train",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
