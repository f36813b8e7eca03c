"""The examples in the frame of the benchmarks run: pytest does not collect that folder, where scripts lie."""

import doctest
from types import ModuleType

import pytest

from benchmarks import compiled_automata, imports

MODULES = (compiled_automata, imports)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples(module: ModuleType) -> None:
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testmod(module, optionflags=options) == doctest.TestResults(0, _examples(module))


def _examples(module: ModuleType) -> int:
    """How many there are; at least one."""
    count = sum(len(test.examples) for test in doctest.DocTestFinder().find(module))
    assert count > 0
    return count
