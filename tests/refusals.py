"""Tests of calls that have to be refused."""

from collections.abc import Callable, Mapping
from functools import partial

import pytest

from automata.errors import InputError


def refusals(*rows: tuple[Callable[[], object], str]) -> Callable[[Callable[[], object], str], None]:
    """A test of each call: it is refused with a sentence that the pattern matches."""

    @pytest.mark.parametrize(("call", "sentence"), rows)
    def test(call: Callable[[], object], sentence: str) -> None:
        with pytest.raises(InputError, match=sentence):
            call()

    return test


def refused_changes(
    make: Callable[..., object], good: Mapping[str, object], *rows: tuple[Mapping[str, object], str]
) -> Callable[[Callable[[], object], str], None]:
    """A test of each change of arguments that are good otherwise."""
    return refusals(*((partial(make, **{**good, **change}), sentence) for change, sentence in rows))
