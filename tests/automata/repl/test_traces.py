import contextlib
import io

import numpy as np
import pytest

from automata.errors import InputError
from automata.monoids.groups import symmetric_group
from automata.repl import ReplTrace, repl_trace, sample_repl_trace


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


@pytest.mark.parametrize("seed", range(10))
def test_python_prints_what_the_trace_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    trace = sample_repl_trace(rng, variables=int(rng.integers(2, 8)), swaps=20, reveal_every=3)
    outputs, states = run_in_python(trace)
    assert list(trace.outputs) == outputs
    assert list(trace.states) == states


def test_python_agrees_on_whole_permutations_of_repeated_values() -> None:
    rng = np.random.default_rng(0)
    permutations = [(rng.permutation(5) + 1).tolist() for _ in range(20)]
    permutations[3] = [1, 2, 3, 4, 5]
    reveals = [[None, *"abcde"][index] for index in rng.integers(0, 6, size=20)]
    trace = repl_trace(permutations, rng.integers(0, 10, size=5).tolist(), reveals)
    outputs, states = run_in_python(trace)
    assert list(trace.outputs) == outputs
    assert list(trace.states) == states


def test_final_state_is_the_product_in_s5() -> None:
    S5 = symmetric_group(5)
    elements = np.random.default_rng(1).integers(0, 120, size=12).tolist()
    permutations = [[int(digit) for digit in S5.element_names[element]] for element in elements]
    trace = repl_trace(permutations, [1, 2, 3, 4, 5], [None] * 12)
    assert "".join(map(str, trace.states[-1])) == S5.element_names[S5.multiply(*elements)]


def test_spans_point_at_the_revealed_values() -> None:
    trace = sample_repl_trace(np.random.default_rng(2), swaps=10, reveal_every=4)
    shown = [output.split()[1] for output in trace.outputs if output]
    assert [trace.text[start:end] for start, end in trace.reveal_spans] == shown
    assert len(shown) == 3  # after swaps 4, 8 and the last
    assert all(trace.text[end : end + 1] in ("", "\n") for _, end in trace.reveal_spans)


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


@pytest.mark.parametrize("change", [{"variables": 1}, {"swaps": 0}, {"reveal_every": 0}])
def test_bad_samples_are_refused(change: dict[str, int]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(change))} is {next(iter(change.values()))}"):
        sample_repl_trace(np.random.default_rng(0), **change)
