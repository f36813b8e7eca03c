"""Seven benchmarks of language models from files in a folder, as the prompts of `lm-eval` want them.

`LOCAL_SETS` and docs/evaluation.md have the files. Prompts are those of lm-eval's own tasks: LAMBADA asks for
the last word, the last space before it included; PIQA and ARC ask "Question: … Answer:"; OpenBookQA has the
stem to be gone on with; WinoGrande compares what follows the blank after either filling; HellaSwag's contexts
and endings are prepared as lm-eval does it.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from automata.data_files import DATA_VARIABLE, read_file, strict_json
from automata.errors import InputError, unknown_name

Rows = Iterator[dict[str, Any]]


@dataclass(frozen=True)
class LocalSet:
    """A benchmark.

    Attributes:
        sentence: what is asked.
        files: below the folder, in the order of the arguments of ``rows``.
        rows: makes rows of a data set of the lines of the files.
    """

    sentence: str
    files: tuple[str, ...]
    rows: Callable[..., Rows]


def _lambada(lines: list[str]) -> Rows:
    for line in lines:
        text, space, word = strict_json(line, "a line", "")["text"].rpartition(" ")
        yield {"text": text, "target": space + word}


def _questions(lines: list[str]) -> Rows:
    """A query, choices and the number of the right one, as they are."""
    for line in lines:
        found = strict_json(line, "a line", "")
        yield {"text": found["query"], "choices": found["choices"], "answer": found["gold"]}


def _piqa(lines: list[str], labels: list[str]) -> Rows:
    for line, label in zip(lines, labels, strict=True):
        found = strict_json(line, "a line", "")
        yield {
            "text": f"Question: {found['goal']}\nAnswer:",
            "choices": [found["sol1"], found["sol2"]],
            "answer": int(label),
        }


def _winogrande(lines: list[str]) -> Rows:
    for line in lines:
        found = strict_json(line, "a line", "")
        before, _, after = found["sentence"].partition("_")
        yield {
            "contexts": [before + found["option1"], before + found["option2"]],
            "continuation": after.strip(),
            "answer": int(found["answer"]) - 1,
        }


LOCAL_SETS = {
    "lambada": LocalSet(
        "the last word of a passage (accuracy, perplexity)", ("lambada/lambada_test.jsonl",), _lambada
    ),
    "hellaswag": LocalSet(
        "which of four endings goes on (1000 questions)",
        ("hellaswag/hellaswag_val_olmo1000.docs.jsonl",),
        _questions,
    ),
    "piqa": LocalSet(
        "which of two ways reaches a goal", ("piqa/valid.jsonl", "piqa/valid-labels.lst"), _piqa
    ),
    "arc_easy": LocalSet(
        "easy questions of science at school", ("arc/ARC-Easy-Test.docs.jsonl",), _questions
    ),
    "arc_challenge": LocalSet(
        "hard questions of science at school", ("arc/ARC-Challenge-Test.docs.jsonl",), _questions
    ),
    "winogrande": LocalSet(
        "which of two words a blank stands for", ("winogrande/winogrande_xl_dev.docs.jsonl",), _winogrande
    ),
    "openbookqa": LocalSet(
        "which of four words or phrases ends a statement", ("openbookqa/openbook_qa_test.jsonl",), _questions
    ),
}
"""By name, without the ``local_`` that the harness puts before it."""


def local_files(name: str, data: str | Path | None = None) -> list[Path]:
    """Return the files of a set, which are there, in the folder or that of IMPLICIT_SSM_DATA."""
    if name not in LOCAL_SETS:
        raise unknown_name("local set", name, LOCAL_SETS)
    given = os.environ.get(DATA_VARIABLE) if data is None else data
    if not given:
        raise InputError(
            f"data is missing, and {DATA_VARIABLE} is not set; give the folder of the sets with --data"
        )
    folder = Path(given)
    if not folder.is_dir():
        raise InputError(f"data is {folder}, which is no folder; give the folder of the sets")
    files = [folder / file for file in LOCAL_SETS[name].files]
    for path in files:
        if not path.is_file():
            raise InputError(
                f"data lacks {path.relative_to(folder)} for {name}; put that file into {folder} or "
                "leave the task out"
            )
    return files


def local_rows(name: str, data: str | Path | None = None) -> list[dict[str, Any]]:
    """Return the rows of a set: what its task reads.

    InputError as for `local_files`, or if a file does not hold what it should.
    """
    files = local_files(name, data)
    try:
        # Lines end with \n only: texts may hold other separators, such as U+2028.
        lines = [read_file(path).decode().removesuffix("\n").split("\n") for path in files]
        return list(LOCAL_SETS[name].rows(*lines))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        named = " and ".join(path.name for path in files)
        raise InputError(
            f"data holds {named}, which cannot be read ({type(error).__name__}: {error}); restore it"
        ) from None
