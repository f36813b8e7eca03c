"""Pretraining of language models, through `accelerate`: one device, or many.

python -m implicit.language.pretrain CONFIG.yaml --out FOLDER
"""

from implicit.language.pretrain.config import (
    Evaluation as Evaluation,
    ModelChoice as ModelChoice,
    Phase as Phase,
    PretrainConfig as PretrainConfig,
    Source as Source,
    read_config as read_config,
)
from implicit.language.pretrain.folder import FinishedRun as FinishedRun, finished_run as finished_run
from implicit.language.pretrain.loop import make_accelerator as make_accelerator, pretrain as pretrain
from implicit.language.pretrain.tokens import (
    byte_tokenizer as byte_tokenizer,
    train_tokenizer as train_tokenizer,
)
