"""How many lines of a program the interpreter executes."""

import sys
from types import FrameType
from typing import Any

from automata.programs.running import execute


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
