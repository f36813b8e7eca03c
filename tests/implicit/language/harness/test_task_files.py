"""The task files: all that are listed, in the package, and good for the plain command of `lm-eval`."""

import tomllib
from pathlib import Path

import pytest

from automata.data_files import DATA_VARIABLE
from implicit.language.harness import (
    HARNESS_TASKS,
    TASK_FILES,
    HarnessOptions,
    tracking_documents,
)
from tests.implicit.language.harness.small_harness_models import (
    DATA,
    ROOT,
    needs_data,
    other_model,
    write_model,
)


def test_what_is_listed_is_what_lm_eval_finds() -> None:
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(TASK_FILES), include_defaults=False)
    assert set(manager.all_tasks) == set(HARNESS_TASKS)


def test_the_task_files_are_packaged() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["implicit"]
    packaged = {path for pattern in patterns for path in (ROOT / "implicit").glob(pattern)}
    assert {path for path in TASK_FILES.iterdir() if path.is_file()} <= packaged


def test_documents_reach_lm_eval_as_they_are_drawn() -> None:
    from lm_eval.tasks import TaskManager

    told = HarnessOptions(("tracking_a5",), documents=4, seed=9, length=6).metadata
    manager = TaskManager(include_path=str(TASK_FILES), include_defaults=False, metadata=told)
    found = manager.load(["tracking_a5", "tracking_s3_by_length"])["tasks"]
    for task, name, length in (
        ("tracking_a5", "a5", 6),
        ("tracking_s3_by_length::length_08", "s3", 8),
        ("tracking_s3_by_length::length_32", "s3", 32),
    ):
        drawn = tracking_documents(name, length, documents=4, seed=9)
        for row, document in zip(found[task].eval_docs, drawn, strict=True):
            assert found[task].fewshot_context(row, num_fewshot=0) == document.text
            assert found[task].doc_to_choice(row) == list(document.choices)
            assert found[task].doc_to_target(row) == document.answer
            built = found[task].construct_requests(row, document.text, doc_id=0, metadata=("", 0, 1))
            assert [one.args[1] for one in built] == [f" {choice}" for choice in document.choices]


@needs_data
def test_the_backend_of_lm_eval_takes_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lm_eval.evaluator import simple_evaluate
    from lm_eval.tasks import TaskManager

    folder = write_model(other_model(), tmp_path / "model")
    monkeypatch.setenv(DATA_VARIABLE, str(DATA))
    arguments = {"pretrained": str(folder)}
    told = {**arguments, "length": 3, "documents": 5}
    found = simple_evaluate(
        model="hf",
        model_args=arguments,
        device="cpu",
        tasks=["local_openbookqa", "tracking_parity"],
        task_manager=TaskManager(include_path=str(TASK_FILES), include_defaults=False, metadata=told),
        limit=2,
    )
    assert found is not None
    assert set(found["results"]) == {"local_openbookqa", "tracking_parity"}
    assert found["n-samples"]["tracking_parity"] == {"original": 5, "effective": 2}
    text = found["samples"]["tracking_parity"][0]["arguments"][0][0]
    assert text == tracking_documents("parity", 3, documents=5)[0].text
