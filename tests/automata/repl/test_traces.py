import contextlib
import io

import numpy as np
import pytest

from automata.errors import InputError
from automata.repl import ReplTrace, repl_trace


def run_in_python(trace: ReplTrace) -> tuple[list[str], list[tuple[int, ...]]]:
    """Execute the commands one by one: what each prints, and the variables after each."""
    variables: dict[str, object] = {}
    outputs, states = [], []
    for command in trace.commands:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(command, {"print": print}, variables)
        outputs.append(printed.getvalue().rstrip("\n"))
        states.append(tuple(int(str(variables[name])) for name in sorted(variables)))
    return outputs, states


def test_python_agrees_on_whole_permutations_of_repeated_values() -> None:
    rng = np.random.default_rng(0)
    permutations = [(rng.permutation(5) + 1).tolist() for _ in range(20)]
    permutations[3] = [1, 2, 3, 4, 5]
    reveals = [[None, *"abcde"][index] for index in rng.integers(0, 6, size=20)]
    trace = repl_trace(permutations, rng.integers(0, 10, size=5).tolist(), reveals)
    outputs, states = run_in_python(trace)
    assert list(trace.outputs) == outputs
    assert list(trace.states) == states


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": ()}, "values has 0 entries"),
        ({"reveals": ()}, "reveals has 0 entries"),
        ({"permutations": [(1, 1)]}, r"permutations holds \(1, 1\)"),
        ({"reveals": ["z"]}, "reveals holds 'z'"),
        ({"reveals": ["ab"]}, "reveals holds 'ab'"),
    ],
)
def test_bad_traces_are_refused(arguments: dict[str, object], message: str) -> None:
    good = {"permutations": [(2, 1)], "values": (1, 2), "reveals": [None]}
    with pytest.raises(InputError, match=message):
        repl_trace(**{**good, **arguments})  # type: ignore[arg-type]
