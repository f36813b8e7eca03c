"""Are compiled automata right on long words? ``python -m benchmarks.compiled_automata [NAME ...]``.

Every model reads the words in the sequential mode, in float32, all words together and 500 tokens at a time,
and each of its answers is compared with the machine's. Finished work is stored, and not done again.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from automata.errors import InputError, unknown_name
from automata.machines.mealy import MealyMachine
from automata.tasks import make_task
from benchmarks.frame import describe_machine
from implicit.command_line import CommandParser, run_command
from implicit.compiled import Wiring, bounds_of, compile_automaton
from implicit.modes import Solve
from implicit.runs.files import write_bytes

RESULTS = Path(__file__).parent / "results" / "compiled_automata.json"
AT_ONCE = 500
RANDOM_AUTOMATA = 20


def random_automaton(number: int) -> MealyMachine:
    """Return an automaton with 2 to 30 states and 1 to 6 tokens, drawn uniformly; the answer is the state.

    Example:
        >>> random_automaton(0).state_count, random_automaton(0).token_count
        (26, 4)
    """
    rng = np.random.default_rng(number)
    table = rng.integers(0, (states := int(rng.integers(2, 31))), (states, int(rng.integers(1, 7))))
    return MealyMachine(table, table, int(rng.integers(states)))


def task_machine(name: str) -> MealyMachine:
    found = make_task(name).machine()
    assert found is not None
    return found


MACHINES: dict[str, Callable[[], MealyMachine]] = {
    **{name: partial(task_machine, name) for name in ("parity", "S3", "A5-generators", "S5-generators")},
    **{f"random-{number}": partial(random_automaton, number) for number in range(RANDOM_AUTOMATA)},
}


@torch.no_grad()
def read_words(machine: MealyMachine, words: int, length: int, seed: int = 0) -> dict[str, Any]:
    """Return how many answers of the compiled machine are right on random words, and at what cost.

    Example:
        >>> found = read_words(MealyMachine([[0, 1], [1, 0]], [[0, 1], [1, 0]]), words=2, length=20)
        >>> found["right"], found["answers"], found["most_iterations"]
        (40, 40, 2)
    """
    model = compile_automaton(machine)
    tokens = np.random.default_rng(seed).integers(0, machine.token_count, (words, length))
    expected = torch.from_numpy(machine.read(tokens))
    state, began = None, time.process_time()
    right = iterations = most = converged = 0
    margin = float("inf")
    for place in range(0, length, AT_ONCE):
        part = torch.from_numpy(tokens[:, place : place + AT_ONCE])
        output = model.run(part, state, Solve("sequential"))
        assert output.solution is not None
        state = output.state
        right += int((output.logits.argmax(-1) == expected[:, place : place + AT_ONCE]).sum())
        iterations += int(output.solution.iterations.sum())
        most = max(most, int(output.solution.iterations.max()))
        converged += round(output.solution.share_converged * part.numel())
        if output.logits.shape[-1] > 1:
            best, second = output.logits.topk(2).values.unbind(-1)
            margin = min(margin, float(((best - second) / best).min()))
    return {
        "states": machine.state_count,
        "tokens": machine.token_count,
        "d_model": model.config.d_model,
        "inner_width": model.config.d_model * int(model.config.expand),  # type: ignore[attr-defined]
        "parameters": model.parameter_count(),
        "words": words,
        "length": length,
        "answers": words * length,
        "right": right,
        "converged": converged,
        "iterations_per_token": iterations / (words * length),
        "most_iterations": most,
        "least_margin": margin,
        "proved_margin": bounds_of(model, Wiring.one_hot(machine)).margin,
        "seconds": round(time.process_time() - began, 1),
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser("python -m benchmarks.compiled_automata", "Let compiled automata read long words.")
    parser.add_argument("names", metavar="NAME", nargs="*", help="automata (default: all)")
    parser.add_argument("--words", type=int, default=100, help="words for each (default: 100)")
    parser.add_argument("--length", type=int, default=10_000, help="tokens of a word (default: 10,000)")
    parser.add_argument(
        "--out", metavar="FILE", default=str(RESULTS), help="JSON (default: in benchmarks/results)"
    )
    arguments = parser.parse_args(argv)
    for name in arguments.names:
        if name not in MACHINES:
            raise unknown_name("automaton", name, MACHINES)
    for field in ("words", "length"):
        if getattr(arguments, field) < 1:
            raise InputError(f"{field} is {getattr(arguments, field)}; give at least 1")
    torch.set_num_threads(1)
    file = Path(arguments.out)
    done: dict[str, Any] = json.loads(file.read_bytes())["automata"] if file.is_file() else {}
    for name in arguments.names or MACHINES:
        asked = (arguments.words, arguments.length)
        if name not in done or (done[name]["words"], done[name]["length"]) != asked:
            done[name] = {"date": datetime.now(UTC).date().isoformat()}
            done[name] |= read_words(MACHINES[name](), *asked)
        content = {
            "command": "python -m benchmarks.compiled_automata",
            "environment": describe_machine(),
            "automata": {known: done[known] for known in MACHINES if known in done},
        }
        write_bytes(file, (json.dumps(content, indent=1) + "\n").encode())
    Console(width=120).print(table(done))
    if any(found["right"] < found["answers"] for found in done.values()):
        sys.exit(1)


def table(done: dict[str, Any]) -> Table:
    shown = Table(title="Answers of compiled automata, sequential mode, float32", title_justify="left")
    columns = ("states", "tokens", "d_model", "parameters", "right", "answers", "most_iterations", "seconds")
    for column in ("automaton", *columns, "least margin (proved)"):
        shown.add_column(column.replace("_", " "), justify="left" if column == "automaton" else "right")
    for name, found in done.items():
        margins = f"{found['least_margin']:.3f} ({found['proved_margin']:.3f})"
        shown.add_row(name, *(f"{found[column]:,}" for column in columns), margins)
    return shown


if __name__ == "__main__":
    sys.exit(run_command(main))
