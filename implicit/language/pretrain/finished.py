"""A pretraining run that ended: its model, its tokenizer, and what was measured in the end."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from automata.errors import InputError
from implicit.checked_config import validated
from implicit.language.configuration import FixedPoints
from implicit.language.modeling import LanguageModel
from implicit.language.pretrain.config import PretrainConfig, Source
from implicit.language.pretrain.folder import FORMAT_VERSION, PretrainFolder
from implicit.language.pretrain.tokens import encoded
from implicit.language.stored_models import load_model
from implicit.runs.files import read_json


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """The contents of a finished run, which `finished_run` reads.

    Attributes:
        path: of the run folder.
        config: everything that determined the run.
        model: in evaluation mode; it says nothing of tokens without a fixed point.
        tokenizer: of the run.
        result: the content of ``result.json``.
        metrics: the lines of ``metrics.jsonl``.
    """

    path: Path
    config: PretrainConfig
    model: LanguageModel
    tokenizer: PreTrainedTokenizerBase
    result: dict[str, Any]
    metrics: list[dict[str, Any]]

    def tokens(self, *files: str) -> Tensor:
        """Return texts as the tokens of the run, int64 ``[tokens]``, each ended by the end-of-text token.

        Raises:
            InputError: a file cannot be read, or holds no text.
        """
        return torch.as_tensor(encoded(Source(files=files), self.tokenizer)[0].astype("int64"))


def finished_run(path: str | os.PathLike[str]) -> FinishedRun:
    """Read the folder of a run that ended.

    Raises:
        InputError: the folder holds no run, or one that did not end, or something of it cannot be read.

    Example:
        >>> finished_run("runs/nowhere")
        Traceback (most recent call last):
        automata.errors.InputError: runs/nowhere holds no pretraining run that ended; finish it with ...
    """
    folder = PretrainFolder(Path(path))
    if not (folder.begun and folder.finished):
        raise InputError(
            f"{path} holds no pretraining run that ended; finish it with python -m implicit.language.pretrain"
        )
    config = _config(folder)
    loaded, tokenizer = load_model(folder.model)
    model = cast(LanguageModel, loaded)
    if isinstance(model.config, FixedPoints):
        model.config.unconverged = "ignore"
    return FinishedRun(folder.path, config, model, tokenizer, folder.read_result(), folder.read_metrics())


def _config(folder: PretrainFolder) -> PretrainConfig:
    values, fields = read_json(folder.config), PretrainConfig.model_fields
    if (
        not isinstance(values, dict)
        or values.get("format_version") != FORMAT_VERSION
        or not fields.keys() <= values.keys()
    ):
        raise InputError(
            f"{folder.config} is of no pretraining run of format version {FORMAT_VERSION}; give the folder "
            "of one, or train again"
        )
    return validated(PretrainConfig, {name: values[name] for name in fields})
