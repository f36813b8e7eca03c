"""The tokenizer of phrases: reversible, the longest phrase first, and what it refuses."""

import pytest

from automata.phrases import END, PhraseTokenizer
from tests.refusals import refusals

TABLE = PhraseTokenizer(["a", "ab", "b", " ", "\n", "1", "12"])


@pytest.mark.parametrize("text", ["", "a", "abab", "ba b\n12 1", "121"])
def test_a_text_is_its_tokens(text: str) -> None:
    assert TABLE.decode(TABLE.encode(text)) == text


test_bad_input_is_refused = refusals(
    (lambda: PhraseTokenizer([]), "phrases is empty"),
    (lambda: PhraseTokenizer(["a", ""]), "phrases holds ''"),
    (lambda: PhraseTokenizer(["a", "b", "a"]), "phrases holds 'a'"),
    (lambda: PhraseTokenizer([END]), "phrases holds '<end>'"),
    (lambda: TABLE.encode("abc12"), "holds 'c12' at position 2"),
    (lambda: TABLE.decode([8]), r"token is 8; give one in 0 … 7"),
    (lambda: TABLE.decode([0.5]), "token is 0.5"),  # type: ignore[list-item]
)
