"""Programs that are sure to end: the bound against counted lines, a known example, and what is refused."""

import pytest

from automata.errors import InputError
from automata.programs.running import LIMIT, run_program, statement_bound
from tests.automata.programs.counting import lines_executed
from tests.refusals import refusals

FROM_THE_SLIDES = """\
# Assigning variables
x = 3
y = 5

# Manipulate variables
x = x + 2
y = y * 2

# Loop
for i in range(3):
    x += i
    y -= 1

print("Final x:", x)
print("Final y:", y)
"""


def test_the_example_of_the_slides() -> None:
    """x = 3 + 2 + 0 + 1 + 2 and y = 5 · 2 − 3."""
    assert run_program(FROM_THE_SLIDES) == ("Final x: 8", "Final y: 7")
    assert lines_executed(FROM_THE_SLIDES) == statement_bound(FROM_THE_SLIDES) == 4 + 4 + 6 + 2


@pytest.mark.parametrize(
    ("source", "bound"),
    [
        ("", 1),
        ("x = 1", 1),
        ("for i in range(0):\n    x = 1", 1),
        ("for i in range(3):\n    for j in range(2):\n        x = i", 4 + 3 * (3 + 2)),
        ("x = 3\nif x > 2:\n    y = 1\n    z = 2\nelse:\n    y = 0", 4),
        ("x, y = 1, 2\nx, y = y, x\nx %= 10\nx = (x * y) % 7\nprint(-x)", 5),
    ],
)
def test_bounds_written_by_hand_are_reached(source: str, bound: int) -> None:
    assert statement_bound(source) == bound
    assert lines_executed(source) == bound


def test_a_branch_that_is_not_taken_counts_in_the_bound_only() -> None:
    source = "x = 3\nif x < 2:\n    y = 1\n    z = 2\nelse:\n    y = 0"
    assert statement_bound(source) == 4
    assert lines_executed(source) == 3


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("while True: pass", "While in line 1"),
        ("x = 1\ndef f(): f()\nf()", "FunctionDef in line 2"),
        ("import os", "Import in line 1"),
        ("x = __import__('os')", "Call in line 1"),
        ("__builtins__ = 1", "Name in line 1"),
        ("print(__builtins__)", "Name in line 1"),
        ("range = 3", "Name in line 1"),
        ("for print in range(3): x = 1", "Name in line 1"),
        ("n = 3\nfor i in range(n): x = 1", "For in line 2"),
        ("for i in range(1, 3): x = 1", "For in line 1"),
        ("for i in range(-1): x = 1", "For in line 1"),
        ("for i in range(True): x = 1", "For in line 1"),
        ("for i in [1, 2]: x = 1", "For in line 1"),
        ("for i in range(2): x = 1\nelse: x = 2", "For in line 1"),
        ("x = 2 ** 9", "BinOp in line 1"),
        ("x = 3\nx = x * x", "BinOp in line 2"),
        ("x = 3\nx *= x", "BinOp in line 2"),
        ("x = 3\ny = (x * x * x) % 10", "BinOp in line 2"),
        ("x = 3 % 0", "BinOp in line 1"),
        ("x = 3\nx = x % x", "BinOp in line 2"),
        ("x = 3 // 2", "BinOp in line 1"),
        ("x = 'a' * 1000", "Constant in line 1"),
        ("x = 1000001", "Constant in line 1"),
        ("x = 1.5", "Constant in line 1"),
        ("x = True", "Constant in line 1"),
        ("x = [1]", "List in line 1"),
        ("x = y = 1", "Assign in line 1"),
        ("x, y = 1, 2, 3", "Assign in line 1"),
        ("x, *y = 1, 2", "Starred in line 1"),
        ("x = 1\nif x: y = 2", "If in line 2"),
        ("x = 1\nif x in x: y = 2", "If in line 2"),
        ("x = 1\nx.real", "Expr in line 2"),
        ("print(1, end='')", "Expr in line 1"),
        ("print([1])", "List in line 1"),
        ("x = 1 if 2 < 3 else 4", "IfExp in line 1"),
        ("(x := 3)", "Expr in line 1"),
        ("pass", "Pass in line 1"),
    ],
)
def test_what_might_not_end_or_do_harm_is_refused(source: str, what: str) -> None:
    for call in (statement_bound, run_program):
        with pytest.raises(InputError, match=f"source has {what}; give assignments, if, for"):
            call(source)


test_bad_programs_are_refused = refusals(
    (lambda: run_program("x ="), "source is no program"),
    (lambda: run_program("x = 1\0"), "source is no program"),
    (lambda: run_program("(" * 5000 + ")" * 5000), "source is no program"),
    (lambda: run_program(3), "source is 3; give the text of a program"),  # type: ignore[arg-type]
    (lambda: run_program("print(x)"), "name 'x' is not defined.*give every variable a value"),
    (lambda: run_program("x = 1", limit=0), "limit is 0"),
    (lambda: run_program("for i in range(5000): x = i"), "limit|at most 10000"),
    (lambda: run_program("for i in range(99999999):\n    x = i"), "may execute 199999999 lines"),
    (
        lambda: run_program("x = 9\nfor i in range(4000):\n    x = x * 1000000\nprint(x)"),
        "source fails.*keep its numbers small",
    ),
    (
        lambda: run_program(
            "".join(f"{'    ' * depth}for i in range(1):\n" for depth in range(21)) + "    " * 21 + "x = 1"
        ),
        "too many statically nested blocks",
    ),
)


def test_the_limit_is_on_the_bound() -> None:
    source = f"for i in range({(LIMIT - 1) // 2}):\n    x = i"
    assert LIMIT - 2 <= statement_bound(source) <= LIMIT
    assert run_program(source) == ()
    with pytest.raises(InputError, match="may execute 21 lines; give one of at most 20, or raise limit"):
        run_program("for i in range(10):\n    x = i", limit=20)


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("x = 1\nprint(\n x,\n x,\n x)", "2 to 5"),
        ("x = 1 + \\\n 2", "1 to 2"),
        ("x = 1\nif (x <\n 2):\n    x = 3", "2 to 3"),
        ("for i in range(\n 2):\n    x = i", "1 to 2"),
        ("x = 1\nif x < 2:\n    x = 3\nelse:\n    print(x,\n x)", "5 to 6"),
    ],
)
def test_a_statement_over_several_lines_is_refused(source: str, lines: str) -> None:
    compile(source, "<program>", "exec")  # Python takes it
    for function in (statement_bound, run_program):
        with pytest.raises(InputError, match=f"source has a statement over lines {lines}; write it in one"):
            function(source)


def test_why_statements_over_several_lines_are_refused() -> None:
    """Their lines are steps of their own: a bound that counts statements is exceeded."""
    assert lines_executed("x = 1\nprint(\n x,\n x,\n x)") > statement_bound("x = 1\nprint(x, x, x)") == 2
