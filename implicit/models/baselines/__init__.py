"""The controls: models that everyone compares with, under the same interface."""

from implicit.models.baselines.lstm import LSTM, LSTMConfig
from implicit.models.baselines.mamba2 import Mamba2, Mamba2Config

__all__ = ["LSTM", "LSTMConfig", "Mamba2", "Mamba2Config"]
