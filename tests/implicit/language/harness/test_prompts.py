"""Prompts of the seven sets are those that the tasks of `lm-eval` make of the same records."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from automata.errors import InputError
from implicit.language.harness import LOCAL_SETS, TASK_FILES
from implicit.language.harness.local_sets import local_rows
from tests.implicit.language.harness.small_harness_models import DATA, needs_data

THEIRS = {
    "lambada": "lambada/lambada_openai.yaml",
    "hellaswag": "hellaswag/hellaswag.yaml",
    "piqa": "piqa/piqa.yaml",
    "arc_easy": "arc/arc_easy.yaml",
    "arc_challenge": "arc/arc_challenge.yaml",
    "winogrande": "winogrande/default.yaml",
    "openbookqa": "openbookqa/openbookqa.yaml",
}
COMPARED = 71
"""At least so many documents of each set are compared, evenly spread."""


def lines(file: str) -> list[Any]:
    text = (DATA / file).read_text(encoding="utf-8").removesuffix("\n")
    return [json.loads(line) for line in text.split("\n")]


def lettered(found: dict[str, Any]) -> dict[str, Any]:
    """Choices and answer of a question as its data set on the Hub has them."""
    letters = "ABCDE"[: len(found["choices"])]
    return {
        "choices": {"text": found["choices"], "label": list(letters)},
        "answerKey": letters[found["gold"]],
    }


@pytest.mark.parametrize("line", ['{"text": 5}', "[" * 10**5, '{"text": "a b", "text": "a c"}'])
def test_lines_that_are_none_are_told(line: str, tmp_path: Path) -> None:
    (tmp_path / "lambada").mkdir()
    (tmp_path / LOCAL_SETS["lambada"].files[0]).write_text(f"{line}\n")
    with pytest.raises(InputError, match=r"lambada_test\.jsonl, which cannot be read"):
        local_rows("lambada", tmp_path)


def hub_records(name: str) -> Iterator[dict[str, Any]]:
    """The local documents in the form in which the Hub has them, as far as prompts are made of it."""
    first = lines(LOCAL_SETS[name].files[0])
    if name in ("lambada", "winogrande"):
        yield from first
    elif name == "piqa":
        labels = (DATA / LOCAL_SETS[name].files[1]).read_text(encoding="utf-8").split()
        yield from ({**found, "label": int(label)} for found, label in zip(first, labels, strict=True))
    elif name == "openbookqa":
        yield from ({"question_stem": found["query"], **lettered(found)} for found in first)
    elif name == "hellaswag":
        for found in first:
            activity, _, context = found["query"].partition(": ")
            yield {
                "activity_label": activity,
                "ctx_a": context,
                "ctx_b": "",
                # What follows a mark in brackets, which is taken out, keeps the space before it.
                "endings": [("[step]" if ending[0] == " " else "") + ending for ending in found["choices"]],
                "label": str(found["gold"]),
            }
    else:
        for found in first:
            question = found["query"].removeprefix("Question: ").removesuffix("\nAnswer:")
            assert f"Question: {question}\nAnswer:" == found["query"]
            yield {"question": question, **lettered(found)}


def their_task(name: str) -> Any:
    import lm_eval.tasks
    from datasets import Dataset
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.tasks._yaml_loader import load_yaml

    config = load_yaml(Path(lm_eval.tasks.__file__).parent / THEIRS[name], resolve_func=True)
    config = {key: value for key, value in config.items() if key != "tag"}
    documents = Dataset.from_list(list(hub_records(name)))
    parts = dict.fromkeys(("train", "validation", "test"), documents)
    return ConfigurableTask(config={**config, "custom_dataset": lambda **_: parts})


def our_task(name: str) -> Any:
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(TASK_FILES), include_defaults=False, metadata={"data": str(DATA)})
    return manager.load([f"local_{name}"])["tasks"][f"local_{name}"]


def requests(task: Any) -> list[Any]:
    documents = task.eval_docs
    answers = "doc_to_text" if task.multiple_input else "doc_to_target"
    found = []
    for number in range(0, len(documents), len(documents) // COMPARED):
        document = documents[number]
        context = task.fewshot_context(document, num_fewshot=0)
        built = task.construct_requests(document, context, doc_id=number, metadata=("", 0, 1))
        asked = [one.args for one in (built if isinstance(built, list) else [built])]
        found.append((asked, getattr(task, answers)(document)))
    return found


@needs_data
@pytest.mark.parametrize("name", THEIRS)
def test_prompts_and_metrics_are_those_of_lm_eval(name: str) -> None:
    ours, theirs = our_task(name), their_task(name)
    assert len(ours.eval_docs) == len(theirs.eval_docs)
    asked = requests(ours)
    assert len(asked) > 70
    assert asked == requests(theirs)
    assert ours.aggregation() == theirs.aggregation()
    assert ours.higher_is_better() == theirs.higher_is_better()


@needs_data
def test_contexts_of_hellaswag_are_capitalised_as_lm_eval_does_it() -> None:
    """Where the second half of a context can be told, it begins with a capital and has no other."""
    from lm_eval.tasks.hellaswag.utils import preprocess

    told = 0
    for found in lines(LOCAL_SETS["hellaswag"].files[0]):
        before, dot, after = found["query"].rpartition(". ")
        if dot and after[-1:].isalpha() and after == after.capitalize():
            told += 1
            raw = f"{before}. " + after.lower().capitalize()
            assert preprocess(raw) == found["query"]
    assert told > 200
