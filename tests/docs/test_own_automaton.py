"""docs/your_own_automaton.md: its commands run, and its code prints what the comments say."""

import contextlib
import io
import re
from collections.abc import Callable

from implicit.runs.loading import load_run
from tests.docs.page import page, quoted

PAGE = page("your_own_automaton.md")


def test_the_commands_of_the_page_run(run_commands: Callable[[str], None]) -> None:
    assert quoted("traffic_light.json") in PAGE
    run_commands(PAGE)
    assert load_run("runs/light").task.target_names == ("red", "green", "yellow")


def test_the_code_prints_what_its_comments_say(run_commands: Callable[[str], None]) -> None:
    code = "".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    comments = re.findall(r"^print.*  # (.*)$", code, flags=re.MULTILINE)
    assert printed.getvalue().splitlines() == comments
    assert len(comments) == 5
