"""The functions that task files call for their documents: metadata of `lm-eval` in, data sets out."""

from pathlib import Path
from typing import Any

from implicit.language.harness.catalogue import DOCUMENTS, LENGTH, tracking_documents
from implicit.language.harness.local_sets import local_rows


def local_set(local_name: str, data: str | Path | None = None, **_: Any) -> dict[str, Any]:
    """Return one of the seven sets as a ``datasets.Dataset``, under the name of its only split."""
    return _only_split(local_rows(local_name, data))


def tracking(
    tracking_name: str,
    fixed_length: int | None = None,
    length: int = LENGTH,
    documents: int = DOCUMENTS,
    seed: int = 0,
    **_: Any,
) -> dict[str, Any]:
    """Return the documents of a task of state tracking as a ``datasets.Dataset``, under its only split.

    A task that has its own length gives it as ``fixed_length``; all else is what the metadata say.
    """
    steps = length if fixed_length is None else fixed_length
    drawn = tracking_documents(tracking_name, steps, documents, seed)
    return _only_split([document.row() for document in drawn])


def _only_split(rows: list[dict[str, Any]]) -> dict[str, Any]:
    from datasets import Dataset

    return {"test": Dataset.from_list(rows)}
