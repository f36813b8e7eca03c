"""Programs that are sure to end: which those are, how long they run at most, and what they print.

A program may hold assignments (also of several variables at once, and ``+=``, ``-=``, ``*=``, ``%=``), ``if``
with ``else``, ``for … in range(k)`` with a number k, and ``print`` as a statement. Expressions are numbers,
variables, ``+``, ``-``, ``%`` by a number above 0, comparisons as the condition of an ``if``, and ``*`` with
a number on one side; a product of variables has to stand right before ``%``. There is no ``while``, no
``def``, no ``import``, no attribute and no call but these two.

**Every such program ends.** By induction over the nesting a simple statement executes one line, and an ``if``
one and those of one branch. ``for … in range(k)`` executes its own line k + 1 times and its body k times: k
is a number in the text, and what the body assigns does not change the range. So the lines executed are finite
in number, at most what `statement_bound` computes.

The numbers are bounded as well. Those in the text go up to 10^6, so that an operation gives at most 20 binary
digits more than the longest number so far has. Only a product of variables has the digits of both together,
and it is cut below 10^6 at once.
"""

import ast
from collections.abc import Sequence
from types import CodeType

from automata.checks import check_integer, check_type
from automata.errors import InputError

LIMIT = 10_000
"""Lines that `run_program` executes at most, unless told otherwise."""

_LARGEST_NUMBER = 10**6
_NAMES = ("range", "print")
_COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_REMEDY = "give assignments, if, for … in range(number) and print only"


def statement_bound(source: str) -> int:
    r"""Return a number of lines that a program does not exceed when it runs, from its syntax tree alone.

    A line counts each time that it is executed, as a debugger sees it. Exact for a program without ``if``
    whose every statement has a line of its own (measured on CPython 3.11). A statement over several lines,
    which Python may execute in any number of steps from line to line, is refused. InputError if the text is
    no program, or holds what is not allowed (see the top of this module), or a simple statement, or what
    stands before the colon of another, goes on in a further line.

    Example:
        >>> statement_bound("x = 1\nfor i in range(3):\n    x = x + i\nprint(x)")
        9
    """
    check_type("source", source, str, "give the text of a program")
    try:
        program = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"source is no program ({error}); correct it") from error
    return max(1, _bound_of_block(program.body))  # Python counts a line of a program without any


def run_program(source: str, limit: int = LIMIT) -> tuple[str, ...]:
    r"""Return the lines that a program prints: Python itself executes it, with ``range`` and ``print`` only.

    A program that may execute more lines than the limit is refused. InputError if the text is no program of
    the kind that is sure to end, or the program fails, such as by a variable that has no
    value yet.

    Example:
        >>> run_program("x, y = 3, 5\nx, y = y, x\nprint('x', x)")
        ('x 5',)
    """
    check_integer("limit", limit, 1)
    bound = statement_bound(source)
    if bound > limit:
        raise InputError(f"source may execute {bound} lines; give one of at most {limit}, or raise limit")
    try:
        return execute(compile(source, "<program>", "exec"))
    except SyntaxError as error:  # loops can be nested deeper than Python compiles
        raise InputError(f"source is no program ({error}); correct it") from error
    except NameError as error:
        raise InputError(f"source fails ({error}); give every variable a value first") from error
    except ValueError as error:  # numbers of more than 4300 digits are not printed
        raise InputError(f"source fails ({error}); keep its numbers small") from error


def execute(code: CodeType) -> tuple[str, ...]:
    """Return the lines that compiled code prints, without a check: for programs that are known to end."""
    lines: list[str] = []

    def print_line(*values: object) -> None:
        lines.append(" ".join(map(str, values)))

    exec(code, {"__builtins__": {"range": range, "print": print_line}})
    return tuple(lines)


def _bound_of_block(block: Sequence[ast.stmt]) -> int:
    total = 0
    for statement in block:
        total += _bound(statement)
        _check_one_line(statement)
    return total


def _check_one_line(statement: ast.stmt) -> None:
    match statement:
        case ast.If(test=condition):
            last = condition.end_lineno
        case ast.For(iter=numbers):
            last = numbers.end_lineno
        case _:
            last = statement.end_lineno
    if last != statement.lineno:
        raise InputError(
            f"source has a statement over lines {statement.lineno} to {last}; write it in one line"
        )


def _bound(statement: ast.stmt) -> int:
    match statement:
        case ast.Assign(targets=[ast.Name() as target], value=value):
            _check_target(target)
            _check_value(value)
            return 1
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            if len(targets) == len(values):
                for target in targets:
                    _check_target(target)
                for value in values:
                    _check_value(value)
                return 1
        case ast.AugAssign(target=ast.Name() as target, op=operator, value=value):
            _check_target(target)
            name = ast.copy_location(ast.Name(target.id, ast.Load()), target)
            _check_value(ast.copy_location(ast.BinOp(name, operator, value), statement))
            return 1
        case ast.If(
            test=ast.Compare(left=left, ops=operators, comparators=others), body=body, orelse=orelse
        ) if all(isinstance(operator, _COMPARISONS) for operator in operators):
            for value in (left, *others):
                _check_value(value)
            return 1 + max(_bound_of_block(body), _bound_of_block(orelse))
        case ast.For(
            target=target,
            iter=ast.Call(func=ast.Name("range"), args=[ast.Constant(value=int(count))], keywords=[]),
            body=body,
            orelse=[],
        ) if type(count) is int:
            _check_target(target)
            return count + 1 + count * _bound_of_block(body)
        case ast.Expr(value=ast.Call(func=ast.Name("print"), args=arguments, keywords=[])):
            for argument in arguments:
                if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                    _check_value(argument)
            return 1
    raise _refusal(statement)


def _check_target(target: ast.expr) -> None:
    if not isinstance(target, ast.Name) or target.id in _NAMES or target.id.startswith("__"):
        raise _refusal(target)


def _check_value(value: ast.expr) -> None:
    match value:
        case ast.Constant(value=int(number)) if type(number) is int and number <= _LARGEST_NUMBER:
            return None
        case ast.Name(id=name) if name not in _NAMES and not name.startswith("__"):
            return None
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            return _check_value(operand)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            _check_value(left)
            return _check_value(right)
        case ast.BinOp(left=left, op=ast.Mod(), right=ast.Constant(value=int(number))) if (
            type(number) is int and 0 < number <= _LARGEST_NUMBER
        ):
            if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mult):
                _check_value(left.left)
                return _check_value(left.right)
            return _check_value(left)
        case ast.BinOp(left=left, op=ast.Mult(), right=right) if isinstance(left, ast.Constant) or isinstance(
            right, ast.Constant
        ):
            _check_value(left)
            return _check_value(right)
    raise _refusal(value)


def _refusal(node: ast.stmt | ast.expr) -> InputError:
    return InputError(f"source has {type(node).__name__} in line {node.lineno}; {_REMEDY}")
