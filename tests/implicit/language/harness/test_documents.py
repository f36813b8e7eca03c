"""Documents of state tracking, read anew from their text, by other means than they were made."""

import contextlib
import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from implicit.language.harness import TRACKING_TASKS, TrackingDocument, tracking_documents
from tests.implicit.language.harness.small_harness_models import DATA, needs_data


def lamp(text: str) -> str:
    first, *steps = [line for line in text.splitlines() if " but " in line]
    lit = "not lit" not in first
    return ("out", "lit")[(sum("not pressed" not in step for step in steps) + lit) % 2]


def cat(text: str) -> str:
    houses = re.findall(r"circle: (.*?), and so on", text)[0].split(", ")
    at = 0
    for line in text.splitlines()[1:-2]:
        at += {"following": 1, "preceding": -1, "current": 0}[line.split()[4]]
    return str(houses[at % len(houses)])


def line(text: str) -> str:
    head, *orders, question, _ = text.splitlines()
    friends = re.findall(r"[A-Z][a-z]+(?=,| and| stand)", head.partition(" stand")[0] + " stand")
    for order in orders:
        friends = [friends[int(place[0]) - 1] for place in re.findall(r"\d\w\w", order)]
    return str(friends[int(re.findall(r"\d", question)[0]) - 1])


def balls(text: str) -> str:
    places = {number: number for number in "12345"}
    for one, other in re.findall(r"swap ball (\d) and (\d)", text):
        places[one], places[other] = places[other], places[one]
    return places[re.findall(r"Where do balls (\d)", text)[0]]


def printed(source: str) -> list[str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(source, "<document>", "exec"), {})
    return out.getvalue().splitlines()


def program(text: str) -> str:
    source, shown, rest = text.partition("\nFinal x:")
    lines = (shown + rest).strip().splitlines()
    answer = printed(source)[len(lines) - 1]
    assert printed(source)[: len(lines) - 1] == lines[:-1]
    assert answer.startswith(lines[-1])
    return answer.rpartition(" ")[2]


def session(text: str) -> str:
    *commands, shown = text.splitlines()
    assert all(command.startswith(">>> ") for command in commands)
    (answer,) = printed("\n".join(command.removeprefix(">>> ") for command in commands))
    assert answer.startswith(f"{shown} ")
    return answer.removeprefix(f"{shown} ").split()[0]


READERS = {
    "parity": lamp,
    "ring": cat,
    "s3": line,
    "a5": line,
    "s5": line,
    "balls": balls,
    "programs": program,
    "repl": session,
}


def answer(document: TrackingDocument) -> str:
    return document.choices[document.answer]


@pytest.mark.parametrize("length", [1, 7])
@pytest.mark.parametrize("name", TRACKING_TASKS)
def test_the_answer_is_what_the_text_says(name: str, length: int) -> None:
    documents = tracking_documents(name, length, documents=60, seed=3)
    assert len(documents) == 60
    for document in documents:
        assert answer(document) == READERS[name](document.text), document.text
        assert len(document.choices) == TRACKING_TASKS[name].choices
        assert not document.text[-1].isspace()


@pytest.mark.parametrize("name", READERS)
def test_every_choice_is_the_answer_about_as_often_and_documents_are_those_of_their_seed(name: str) -> None:
    documents = tracking_documents(name, 16, documents=400)
    for choice in documents[0].choices:
        share = sum(answer(document) == choice for document in documents) / 400
        assert abs(share - 1 / TRACKING_TASKS[name].choices) < 0.1  # four deviations of 400 coins
    first = tracking_documents(name, 5, documents=10, seed=1)
    assert first == tracking_documents(name, 5, documents=10, seed=1)
    assert first != tracking_documents(name, 5, documents=10, seed=2)


@pytest.mark.parametrize("name", READERS)
def test_what_would_be_right_at_first_is_what_the_text_says_without_its_steps(name: str) -> None:
    lines = r"The switch is.*|The cat visits.*|New order.*|>>> \w, \w = .*"
    step = rf"({lines}|swap ball.*?(, |\. )(?=swap|Where))\n?"
    for document in tracking_documents(name, 6, documents=20):
        if name == "programs":
            variable = re.findall(r"Final (\w):$", document.text)[0]
            still = re.findall(rf"^{variable} = (\d)$", document.text, flags=re.MULTILINE)[0]
        else:
            rest = re.sub(step, "", document.text)
            assert len(rest) < len(document.text)
            still = READERS[name](rest)
        assert document.choices[document.at_first] == still


def neox() -> Any:
    return Tokenizer.from_file(str(DATA / "tokenizers" / "gpt-neox-20b" / "20B_tokenizer.json"))


def gpt2() -> Any:
    folder = DATA / "tokenizers" / "gpt2"
    tokenizer = Tokenizer(models.BPE.from_file(str(folder / "encoder.json"), str(folder / "vocab.bpe")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


@pytest.mark.parametrize(
    "tokenizer",
    [None, pytest.param(neox, marks=needs_data), pytest.param(gpt2, marks=needs_data)],
    ids=["bytes", "neox", "gpt2"],
)
def test_no_text_and_no_answer_is_longer_than_another(tokenizer: Callable[[], Any] | None) -> None:
    """Programs differ in length, which tells nothing: see the shortcuts."""
    encode = str.encode if tokenizer is None else tokenizer().encode
    for name in READERS:
        documents = tracking_documents(name, 16, documents=1 if name == "programs" else 30)
        assert len({len(encode(document.text)) for document in documents}) == 1, name
        assert len({len(encode(f" {choice}")) for choice in documents[0].choices}) == 1, name
        (longest,) = tracking_documents(name, 32, documents=1)
        assert tokenizer is None or len(encode(longest.text)) <= 660, name


def test_longer_documents_have_more_steps() -> None:
    for name, step in (("s5", "New order"), ("balls", "swap ball "), ("repl", " = "), ("parity", "switch")):
        few, many = (tracking_documents(name, length, documents=1)[0].text for length in (4, 32))
        assert many.count(step) - few.count(step) == 28
