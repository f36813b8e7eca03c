"""The tables of wrong inputs together."""

from tests.wrong_python_inputs.test_automata import AUTOMATA
from tests.wrong_python_inputs.test_models import MODELS
from tests.wrong_python_inputs.test_runs import RUNS
from tests.wrong_python_inputs.test_theory import THEORY


def test_the_tables_are_as_long_as_promised() -> None:
    rows = [*AUTOMATA, *MODELS, *RUNS, *THEORY]
    assert len(set(rows)) == len(rows) >= 60
