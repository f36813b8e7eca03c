"""Implicit state-space models: the models, their training, and the run folders that keep them.

The names below are imported when they are first used, so that ``import implicit`` stays light. The function
that trains is ``implicit.train.train``: its name here is that of its module.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from implicit.baselines import LSTM, LSTMConfig, Mamba2, Mamba2Config
    from implicit.evaluation import Evaluation, evaluate
    from implicit.model import ImplicitMamba2, ImplicitMamba2Config
    from implicit.recipes import recipe
    from implicit.registry import build_model
    from implicit.run_dir import Run, load_run
    from implicit.sequence_model import SequenceModel
    from implicit.train_config import TrainConfig

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
]

_HOMES = {
    "LSTM": "implicit.baselines",
    "LSTMConfig": "implicit.baselines",
    "Mamba2": "implicit.baselines",
    "Mamba2Config": "implicit.baselines",
    "Evaluation": "implicit.evaluation",
    "evaluate": "implicit.evaluation",
    "ImplicitMamba2": "implicit.model",
    "ImplicitMamba2Config": "implicit.model",
    "recipe": "implicit.recipes",
    "build_model": "implicit.registry",
    "Run": "implicit.run_dir",
    "load_run": "implicit.run_dir",
    "SequenceModel": "implicit.sequence_model",
    "TrainConfig": "implicit.train_config",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
