"""``dir``, tab and ``help`` show all names that the packages' docstrings have, and no others."""

import pydoc
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

import analysis
import implicit
from analysis.__main__ import OTHERS
from analysis.questions import QUESTIONS
from implicit.models.registry import MODELS

PACKAGES = ("automata", "theory", "implicit", "analysis")
INNER = ("implicit.models", "implicit.training", "implicit.runs", "implicit.config", "analysis.framework")
WITH_LISTS = (*PACKAGES, *INNER)


def listed(module: ModuleType) -> list[str]:
    """The names in the list of a docstring: what stands in backticks, remarks in parentheses left out."""
    assert module.__doc__
    items = re.findall(r"^- .*?(?=^- |^\n|\Z)", module.__doc__ + "\n", flags=re.DOTALL | re.MULTILINE)
    return [name for item in items for name in re.findall(r"(?<!`)`(\w+)`", re.sub(r"\(.*?\)", "", item))]


@pytest.mark.parametrize("name", WITH_LISTS)
def test_the_docstring_lists_every_public_name_once(name: str) -> None:
    module = import_module(name)
    names = listed(module)
    assert len(names) == len(set(names))
    if name in PACKAGES:
        assert set(module.__all__) <= set(names)
        assert sorted(names) == dir(module)
    else:
        public = {key for key, value in vars(module).items() if not isinstance(value, ModuleType)}
        assert set(names) == set(getattr(module, "__all__", {key for key in public if key[0] != "_"}))


@pytest.mark.parametrize("name", PACKAGES)
def test_every_name_that_is_shown_is_there_and_documented(name: str) -> None:
    module = import_module(name)
    for shown in dir(module):
        found = getattr(module, shown)
        assert found is getattr(module, shown)
        if isinstance(found, ModuleType):
            assert found.__name__ in (f"{name}.{shown}", "implicit.train")
        if isinstance(found, type | FunctionType):
            assert pydoc.getdoc(found), shown


@pytest.mark.parametrize("name", PACKAGES)
def test_what_is_not_there_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=f"{name} attribute nothing"):
        _ = import_module(name).nothing


def test_names_are_shown_before_anything_else_is_imported() -> None:
    code = "".join(f"import {name}; print(*dir({name}));" for name in PACKAGES)
    command, root = [sys.executable, "-c", code], Path(__file__).parents[1]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root).stdout
    assert [line.split() for line in shown.splitlines()] == [dir(import_module(name)) for name in PACKAGES]


def test_every_registered_model_and_every_question_is_a_public_name() -> None:
    for model in MODELS.values():
        assert getattr(implicit, model.__name__) is model
    assert {question.name for question in QUESTIONS} | set(OTHERS) <= set(dir(analysis))
