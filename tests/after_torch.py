"""Programs that import the packages for the first time, in interpreters that have imported torch before.

Torch is most of what importing the packages takes, and the same for all of them: one process imports it and
forks for each program, which from there on has an interpreter of its own.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

ROOT = Path(__file__).parents[1]
FORKING = """
import json, os, sys, traceback
from importlib import import_module

folder, names, programs = (json.loads(argument) for argument in sys.argv[1:])
del sys.argv[1:]
for name in names:
    import_module(name)
codes = []
for number, program in enumerate(programs):
    if not (child := os.fork()):
        code = 1
        try:
            for descriptor, stream in ((1, "out"), (2, "errors")):
                os.dup2(os.open(f"{folder}/{number}.{stream}", os.O_WRONLY | os.O_CREAT), descriptor)
            exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
            code = 0
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(json.dumps(codes))
"""


def run_after_torch(
    folder: Path, *programs: str, before: Sequence[str] = ("torch",), options: Sequence[str] = ()
) -> list[CompletedProcess[str]]:
    """Run programs one after the other, none of which knows what another has imported.

    Args:
        folder: an empty one.
        *programs: as ``python -c`` takes them.
        before: the modules that are imported once, before them.
        options: of the interpreter.

    Returns:
        The exit code, the output and the errors of each program.
    """
    given = [json.dumps(argument) for argument in (str(folder), before, programs)]
    ran = subprocess.run(
        [sys.executable, *options, "-c", FORKING, *given],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stderr == ""
    done = zip(programs, json.loads(ran.stdout), strict=True)
    return [
        CompletedProcess(program, code, *((folder / f"{n}.{name}").read_text() for name in ("out", "errors")))
        for n, (program, code) in enumerate(done)
    ]
