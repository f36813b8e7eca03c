"""One evaluation: a model of a folder, some tasks, and what `lm-eval` finds."""

import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from automata.checks import check_integer
from automata.errors import InputError
from automata.tasks.audit import cluster_error
from implicit.language.harness.catalogue import DOCUMENTS, LENGTH, TASK_FILES, check_tasks
from implicit.language.harness.local_sets import local_files
from implicit.language.stored_models import check_model_folder, load_model, only_errors_of
from implicit.runs.environment import describe_environment

_VARIABLES = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")


@contextmanager
def offline() -> Iterator[None]:
    """Refuse what would ask the Hugging Face Hub, until the block ends.

    The libraries read their environment variables when they are imported: what is imported within the block
    reads them as set here, and the setting of the Hub's client, which the others ask, is put back at the end.

    Example:
        >>> from huggingface_hub import HfApi
        >>> with offline():
        ...     HfApi().model_info("gpt2")
        Traceback (most recent call last):
        ...
        huggingface_hub.errors.OfflineModeIsEnabled: ...
    """
    from huggingface_hub import constants

    before = {name: os.environ.get(name) for name in _VARIABLES}
    setting = constants.HF_HUB_OFFLINE
    os.environ.update(dict.fromkeys(_VARIABLES, "1"))
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = setting
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


KEPT = ("results", "groups", "group_subtasks", "versions", "n-shot", "n-samples", "higher_is_better")
"""The parts of the answer of `lm-eval` that are kept: figures and their settings, no texts, no paths."""
_RESAMPLED = 1000
"""Samples for the standard error of a perplexity; that of an accuracy is computed."""
_Read = Mapping[tuple[str, str], tuple[int, bool]]
"""The type of `HarnessModel.read`."""
_LIBRARIES = ("lm_eval", "transformers", "datasets", "tokenizers")


@dataclass(frozen=True)
class HarnessOptions:
    """All that determines an evaluation, beside the model.

    InputError if a number is out of its range, a task is unknown, or a file of a set is missing.

    Attributes:
        tasks: names that `--list` shows.
        data: folder of the seven sets; that of the environment variable IMPLICIT_SSM_DATA if None.
        limit: the first documents of each task that are read; all if None.
        batch_size: texts that are read together.
        seed: of the documents of state tracking, and of `lm-eval`.
        documents: of each task of state tracking.
        length: steps of their documents, for tasks without a length of their own; 16 if None.
        max_length: tokens of a text, whose beginning is cut. If None ``max_position_embeddings`` of the
            model's configuration, ``model_max_length`` of the tokenizer, or else 2048.
        device: where the model is run.

    Example:
        >>> HarnessOptions(("tracking_s5",), limit=0)
        Traceback (most recent call last):
        ...
        automata.errors.InputError: limit is 0; give at least 1
    """

    tasks: tuple[str, ...]
    data: str | None = None
    limit: int | None = None
    batch_size: int = 1
    seed: int = 0
    documents: int = DOCUMENTS
    length: int | None = None
    max_length: int | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        """Check every field, and that the files are there."""
        for field in ("limit", "length", "max_length", "batch_size", "documents"):
            if getattr(self, field) is not None:
                check_integer(field, getattr(self, field), 1)
        if not 0 <= check_integer("seed", self.seed) < 2**32:
            raise InputError(f"seed is {self.seed}; give a number from 0 to {2**32 - 1}")
        for task in check_tasks(list(self.tasks), self.length):
            for name in task.sets:
                local_files(name, self.data)

    @property
    def metadata(self) -> dict[str, Any]:
        """Return the metadata for the task files."""
        given = {"seed": self.seed, "documents": self.documents, "length": self.length or LENGTH}
        return given | ({} if self.data is None else {"data": self.data})


def evaluate_folder(folder: str | Path, settings: HarnessOptions) -> dict[str, Any]:
    """Evaluate the model of a folder, and return what is found with all that it was found with.

    InputError if the folder lacks a model or a tokenizer, or the package ``lm_eval`` is missing.
    """
    check_model_folder(Path(folder))
    with offline():
        model, tokenizer = load_model(Path(folder), settings.device)
        return evaluate_model(model, tokenizer, settings) | {
            "model": Path(folder).name
            if Path(folder).is_absolute()
            else str(folder)  # no folder of a machine
        }


def evaluate_model(model: Any, tokenizer: Any, settings: HarnessOptions) -> dict[str, Any]:
    """Evaluate a causal language model of `transformers`; of this toolkit or any other.

    The model is in evaluation mode, on its device. InputError if the package ``lm_eval`` is missing.

    Returns:
        JSON: what is `KEPT` of the answer of `lm-eval`; ``fixed_points``, how those of an implicit model
        ended over all texts, or None; ``shortened``, how many texts lost their beginning to the limit;
        ``cut``, in how many documents of each task some did; ``settings``; ``environment``.
    """
    evaluator, manager = _harness()
    from implicit.language.harness.adapter import HarnessModel

    # Without the remarks of lm-eval on every task; what it prints goes where its progress bars go.
    with only_errors_of("lm_eval"), redirect_stdout(sys.stderr), offline():
        adapted = HarnessModel(
            model,
            tokenizer=tokenizer,
            batch_size=settings.batch_size,
            **({} if settings.max_length is None else {"max_length": settings.max_length}),
        )
        found = evaluator.simple_evaluate(
            model=adapted,
            tasks=list(settings.tasks),
            task_manager=manager(
                include_path=str(TASK_FILES), include_defaults=False, metadata=settings.metadata
            ),
            num_fewshot=0,
            batch_size=settings.batch_size,
            limit=settings.limit,
            log_samples=True,
            bootstrap_iters=_RESAMPLED,
            random_seed=settings.seed,
            numpy_random_seed=settings.seed,
            torch_random_seed=settings.seed,
            fewshot_random_seed=settings.seed,
        )
    assert found is not None
    _count_clusters(found, adapted.read)
    told = asdict(settings)
    told.pop("data")  # a folder of this machine
    return {
        **{name: _plain(found[name]) for name in KEPT if name in found},
        "fixed_points": adapted.account.summary(),
        "shortened": adapted.shortened,
        "cut": _cut_documents(found, adapted.read),
        "settings": {**told, "tasks": list(settings.tasks), "max_length": adapted.max_length},
        "environment": describe_environment() | {name: metadata.version(name) for name in _LIBRARIES},
    }


def _count_clusters(found: dict[str, Any], read: _Read) -> None:
    """Set the standard errors of accuracies, in place: documents that are read alike are one cluster.

    Only the end of a text that is cut counts. Few clusters can agree by chance, so that no error is smaller
    than that of independent documents.
    """
    from lm_eval.api.metrics import pooled_sample_stderr

    for task, samples in found["samples"].items():
        numbers: dict[tuple[int, ...], int] = {}
        for sample in samples:
            numbers.setdefault(_read_of(sample, read), len(numbers))
        clusters = np.array([numbers[_read_of(sample, read)] for sample in samples])
        count = len(numbers)
        for metric in samples[0]["metrics"]:
            if metric.startswith("acc"):
                right = np.array([sample[metric] for sample in samples], dtype=np.float64)
                error: float | str = "N/A"
                if count > 1:
                    error = cluster_error(right, clusters) * math.sqrt(count / (count - 1))
                    error = max(error, float(right.std(ddof=1)) / math.sqrt(len(right)))
                found["results"][task][f"{metric}_stderr,none"] = error
    for group, figures in found.get("groups", {}).items():
        if "acc,none" not in figures:
            continue  # a group of groups
        parts = [found["results"][task] for task in found["group_subtasks"][group]]
        errors = [part["acc_stderr,none"] for part in parts]
        known = "N/A" not in errors
        error = pooled_sample_stderr(errors, [part["sample_len"] for part in parts]) if known else "N/A"
        figures["acc_stderr,none"] = found["results"][group]["acc_stderr,none"] = error


def _read_of(sample: dict[str, Any], read: _Read) -> tuple[int, ...]:
    return tuple(read[tuple(texts)][0] for texts in sample["arguments"])


def _cut_documents(found: dict[str, Any], read: _Read) -> dict[str, int]:
    """By task, how many documents lost their beginning with at least one of their answers."""
    return {
        task: sum(any(read[tuple(texts)][1] for texts in sample["arguments"]) for sample in samples)
        for task, samples in found["samples"].items()
    }


def results_table(found: dict[str, Any]) -> str:
    """Return the tables of `lm-eval` as text: tasks, and groups if there are any.

    Names of tasks, and of groups of them, say how many documents lost their beginning.
    """
    from lm_eval.utils import make_table

    def tasks_of(name: str) -> list[str]:
        below = found.get("group_subtasks", {}).get(name, ())
        return [task for part in below for task in tasks_of(part)] if below else [name]

    def marked(figures: dict[str, Any]) -> dict[str, Any]:
        rows = {}
        for name, row in figures.items():
            cut = sum(found["cut"].get(task, 0) for task in tasks_of(name))
            count = sum(found["n-samples"].get(task, {}).get("effective", 0) for task in tasks_of(name))
            mark = {"alias": f"{row.get('alias', name)} ({cut} of {count} cut)"} if cut else {}
            rows[name] = row | mark
        return rows

    told = found | {column: marked(found[column]) for column in ("results", "groups") if column in found}
    tables = [make_table(told)]
    if found.get("groups"):
        tables.append(make_table(told, "groups"))
    return "\n".join(table.rstrip() for table in tables)


def _harness() -> tuple[Any, Any]:
    """The evaluator of `lm-eval`, and its manager of tasks."""
    try:
        from lm_eval import evaluator
        from lm_eval.tasks import TaskManager
    except ImportError as error:
        raise InputError(
            f"package lm_eval cannot be imported ({error}); install it with "
            "pip install 'implicit-ssm[harness]'"
        ) from error
    return evaluator, TaskManager


def _plain(value: Any) -> Any:
    """The value as JSON; what JSON has no number for is text."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return value.item() if hasattr(value, "item") else str(value)
