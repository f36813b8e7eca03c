"""The controls: models that everyone compares with, under the same interface."""

from implicit.baselines.lstm import LSTM, LSTMConfig
from implicit.baselines.mamba2 import Mamba2, Mamba2Config

__all__ = ["LSTM", "LSTMConfig", "Mamba2", "Mamba2Config"]
