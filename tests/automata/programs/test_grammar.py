"""Programs that end: bounds against counted lines, random ones as their grammar says, what is refused."""

import ast
import sys
from itertools import product
from types import FrameType
from typing import Any

import numpy as np
import pytest

from automata.errors import InputError
from automata.programs.grammar import Choices, Program, ProgramGrammar
from automata.programs.running import LIMIT, execute, run_program, statement_bound
from tests.refusals import refusals


def lines_executed(source: str) -> int:
    """How many lines a debugger sees."""
    code = compile(source, "<counted>", "exec")
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename != "<counted>":
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        execute(code)
    finally:
        sys.settrace(before)
    return count


GRAMMARS = {
    "default": ProgramGrammar(),
    "two variables": ProgramGrammar(variables=2, modulus=2, iterations=1, depth=1),
    "no nesting": ProgramGrammar(variables=4, depth=0),
    "deep": ProgramGrammar(variables=6, modulus=7, iterations=9, depth=3),
    "reversible": ProgramGrammar(reversible=True),
    "reversible, two variables": ProgramGrammar(variables=2, modulus=5, depth=3, reversible=True),
}


@pytest.fixture(params=GRAMMARS)
def grammar(request: pytest.FixtureRequest) -> ProgramGrammar:
    return GRAMMARS[request.param]


def programs(grammar: ProgramGrammar, count: int, seed: int = 0) -> list[tuple[int, Program]]:
    """So many programs, each with its number of statements."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 25, count).tolist()
    return [(size, grammar.sample(size, rng)) for size in sizes]


def test_programs_end_within_their_bounds() -> None:
    """Lines counted by the interpreter, over all grammars; a third of the programs reaches its own bound."""
    reached = total = 0
    for grammar in GRAMMARS.values():
        for size, program in programs(grammar, 50):
            executed = lines_executed(program.source)
            bound = statement_bound(program.source)
            assert executed <= bound <= grammar.line_bound(size)
            assert executed == bound or "if " in program.source
            reached += executed == bound
            total += 1
    assert reached > total / 3


def test_the_bound_for_all_programs_of_a_size_holds_for_nested_loops() -> None:
    """Two loops of the most iterations around three lines, as a grammar of this kind writes them."""
    grammar = ProgramGrammar(variables=2, iterations=4, depth=2)
    source = (
        "x = 1\ny = 2\nfor i in range(4):\n    for j in range(4):\n"
        + "        x, y = y, x\n" * 3
        + 'print("Final x:", x)\nprint("Final y:", y)\n'
    )
    assert lines_executed(source) == statement_bound(source) == 4 + 5 + 4 * 5 + 3 * 16
    assert statement_bound(source) <= grammar.line_bound(5) == 4 + 5 * 5 * 4


def test_the_number_of_statements_and_the_depth_are_those_asked_for(grammar: ProgramGrammar) -> None:
    depths = set()
    for size, program in programs(grammar, 200, seed=2):
        # without the assignments at the beginning and the prints at the end
        nodes = [node for node in ast.walk(ast.parse(program.source)) if isinstance(node, ast.stmt)]
        assert len(nodes) - 2 * grammar.variables == size
        depths.add(max(len(line) - len(line.lstrip()) for line in program.source.splitlines()) // 4)
    assert depths == set(range(grammar.depth + 1))


def test_values_are_digits_below_the_modulus_at_every_step(grammar: ProgramGrammar) -> None:
    """Every variable after every statement, by printing all of them there."""
    names = "xyzuvw"[: grammar.variables]
    for _, program in programs(grammar, 25, seed=3):
        lines = []
        for line in program.source.splitlines()[grammar.variables :]:
            lines.append(line)
            if not line.endswith(":"):
                indent = line[: len(line) - len(line.lstrip())]
                lines.append(f"{indent}print({', '.join(names)})")
        source = "\n".join([*program.source.splitlines()[: grammar.variables], *lines])
        printed = execute(compile(source, "<watched>", "exec"))
        values = [int(value) for line in printed if not line.startswith("Final") for value in line.split()]
        assert values
        assert 0 <= min(values) <= max(values) < grammar.modulus


def test_a_program_is_its_tokens(grammar: ProgramGrammar) -> None:
    choices = Choices(np.random.default_rng(5))
    for size in range(1, 60):
        tokens = grammar.draw(size, choices)
        text = grammar.run(tokens).text
        assert grammar.tokenizer.decode(tokens) == grammar.run(tokens).source
        whole = grammar.tokenizer.encode(text)
        assert whole[: len(tokens)] == tokens
        assert len(whole) == len(tokens) + 5 * grammar.variables <= grammar.token_bound(size)


@pytest.mark.parametrize("seed", range(3))
def test_programs_within_a_number_of_tokens(grammar: ProgramGrammar, seed: int) -> None:
    choices = Choices(np.random.default_rng(seed))
    least = grammar.token_bound(1)
    lengths = [
        len(grammar.draw_within(room, choices)) + 5 * grammar.variables - room
        for room in range(least, least + 120)
    ]
    assert max(lengths) <= 0
    # a statement with four within it, of which the longest did not fit, at most
    assert min(lengths) > grammar.token_bound(0 + 1) - grammar.token_bound(6)


def test_every_kind_of_statement_is_drawn() -> None:
    source = "".join(program.source for _, program in programs(GRAMMARS["default"], 300, seed=6))
    for pattern in (
        "\nx = 0\n",
        "\nx = y\n",
        "x, z = z, x",
        "x = (x + 1) % 10",
        "y = (z - x) % 10",
        "(x * 9)",
        " + j) % 10",
        "for i in range(4):",
        "    for j in range(1):",
        "if x < 9:",
        "if x > 0:",
        "if y == z:",
        "    if z < i:",
        "    else:\n",
        "\nelse:\n",
    ):
        assert pattern in source, pattern
    for pattern in (" * 1)", " * 0)", "x = x\n", "(x - x)", "< 0", "> 9", "range(0)", "range(5)"):
        assert pattern not in source, pattern


@pytest.mark.parametrize("name", ["reversible", "reversible, two variables"])
def test_reversible_programs_permute_all_values(name: str) -> None:
    """From every one of the m^v beginnings to as many ends."""
    full = GRAMMARS[name]
    grammar = ProgramGrammar(full.variables, 4, full.iterations, full.depth, reversible=True)
    for size, program in programs(grammar, 25, seed=7):
        rest = "\n".join(program.source.splitlines()[grammar.variables :])
        ends = set()
        for values in product(range(4), repeat=grammar.variables):
            begin = "".join(f"{name} = {value}\n" for name, value in zip("xyz", values, strict=False))
            ends.add(execute(compile(begin + rest, "<again>", "exec")))
        assert len(ends) == 4**grammar.variables, (size, program.source)


def test_choices_are_uniform() -> None:
    choices = Choices(np.random.default_rng(0))
    drawn = np.bincount([choices.below(5) for _ in range(20_000)])
    # binomial with share 1/5: five deviations of 57
    assert abs(drawn - 4000).max() < 285
    assert {choices.one_of("ab") for _ in range(50)} == {"a", "b"}
    assert abs(np.mean([choices.happens(0.3) for _ in range(20_000)]) - 0.3) < 0.017


@pytest.mark.parametrize(
    ("source", "bound", "executed"),
    [
        ("", 1, 1),
        ("x = 1", 1, 1),
        ("for i in range(0):\n    x = 1", 1, 1),
        ("for i in range(3):\n    for j in range(2):\n        x = i", 4 + 3 * (3 + 2), 19),
        ("x = 3\nif x > 2:\n    y = 1\n    z = 2\nelse:\n    y = 0", 4, 4),
        ("x = 3\nif x < 2:\n    y = 1\n    z = 2\nelse:\n    y = 0", 4, 3),  # a branch that is not taken
        ("x, y = 1, 2\nx, y = y, x\n\nx %= 10  # so\nx += 3\ny -= 1\nx = (x * y) % 7\nprint(-x)", 7, 7),
    ],
)
def test_bounds_written_by_hand(source: str, bound: int, executed: int) -> None:
    assert (statement_bound(source), lines_executed(source)) == (bound, executed)


REFUSED = {
    "While in line 1": ["while True: pass"],
    "FunctionDef in line 2": ["x = 1\ndef f(): f()\nf()"],
    "Import in line 1": ["import os"],
    "Call in line 1": ["x = __import__('os')"],
    "Name in line 1": [
        *("__builtins__ = 1", "print(__builtins__)", "range = 3", "for print in range(3): x = 1")
    ],
    "For in line 2": ["n = 3\nfor i in range(n): x = 1"],
    "For in line 1": [
        *("for i in range(1, 3): x = 1", "for i in range(-1): x = 1"),
        *("for i in range(True): x = 1", "for i in [1, 2]: x = 1"),
        *("for i in range(2): x = 1\nelse: x = 2",),
    ],
    "BinOp in line 1": ["x = 2 ** 9", "x = 3 % 0", "x = 3 // 2"],
    "BinOp in line 2": [
        *("x = 3\nx = x * x", "x = 3\nx *= x", "x = 3\ny = (x * x * x) % 10", "x = 3\nx = x % x")
    ],
    "Constant in line 1": ["x = 'a' * 1000", "x = 1000001", "x = 1.5", "x = True"],
    "List in line 1": ["x = [1]", "print([1])"],
    "Assign in line 1": ["x = y = 1", "x, y = 1, 2, 3"],
    "Starred in line 1": ["x, *y = 1, 2"],
    "If in line 2": ["x = 1\nif x: y = 2", "x = 1\nif x in x: y = 2"],
    "Expr in line 2": ["x = 1\nx.real"],
    "Expr in line 1": ["print(1, end='')", "(x := 3)"],
    "IfExp in line 1": ["x = 1 if 2 < 3 else 4"],
    "Pass in line 1": ["pass"],
}


@pytest.mark.parametrize(("what", "source"), [(what, one) for what, some in REFUSED.items() for one in some])
def test_what_might_not_end_or_do_harm_is_refused(what: str, source: str) -> None:
    for call in (statement_bound, run_program):
        with pytest.raises(InputError, match=f"source has {what}; give assignments, if, for"):
            call(source)


test_bad_input_is_refused = refusals(
    (lambda: ProgramGrammar(variables=1), "variables is 1; give a number in 2 … 6"),
    (lambda: ProgramGrammar(modulus=1), "modulus is 1; give a number in 2 … 10"),
    (lambda: ProgramGrammar(iterations=0), "iterations is 0; give a number in 1 … 9"),
    (lambda: ProgramGrammar(depth=-1), "depth is -1; give a number in 0 … 3"),
    (lambda: ProgramGrammar(reversible=1), "reversible is 1; give True or False"),  # type: ignore[arg-type]
    (lambda: ProgramGrammar().sample(0, np.random.default_rng(0)), "statements is 0"),
    (lambda: ProgramGrammar().sample(1, 0), "rng is 0; give a generator"),  # type: ignore[arg-type]
    (lambda: ProgramGrammar().token_bound(0), "statements is 0"),
    (lambda: ProgramGrammar().line_bound(0), "statements is 0"),
    (lambda: run_program("x ="), "source is no program"),
    (lambda: run_program("x = 1\0"), "source is no program"),
    (lambda: run_program("(" * 5000 + ")" * 5000), "source is no program"),
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
