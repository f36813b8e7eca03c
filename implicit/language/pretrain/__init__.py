"""Pretraining of language models, through `accelerate`: one device, or many.

python -m implicit.language.pretrain CONFIG.yaml --out FOLDER
"""

from implicit.language.pretrain.config import (
    Evaluation,
    ModelChoice,
    Phase,
    PretrainConfig,
    Source,
    read_config,
)
from implicit.language.pretrain.folder import FinishedRun, finished_run
from implicit.language.pretrain.loop import make_accelerator, pretrain
from implicit.language.pretrain.tokens import byte_tokenizer, train_tokenizer

__all__ = [
    "Evaluation",
    "FinishedRun",
    "ModelChoice",
    "Phase",
    "PretrainConfig",
    "Source",
    "byte_tokenizer",
    "finished_run",
    "make_accelerator",
    "pretrain",
    "read_config",
    "train_tokenizer",
]
