"""How many tokens a second a word problem samples on one core, batch 4096, length 256.

Run ``python -m benchmarks.word_problem_throughput [OUT.json]``; prints the results and writes them as JSON.
"""

import json
import os
import platform
import sys
import time
from pathlib import Path

import numpy as np

from automata import make_task

BATCH, LENGTH, REPEATS = 4096, 256, 30
CASES = (
    ("S5", None),
    ("S5", 0.5),
    ("S5-generators", None),
    ("A5xM", 0.1),
    ("parity", None),
    ("dyck-4", None),
)


def measure(task: str, hard_fraction: float | None) -> dict[str, object]:
    problem = make_task(task, hard_fraction)
    rng = np.random.default_rng(0)
    tokens, states = problem.sample(64, 32, rng)
    if not (problem.states(tokens) == states).all():
        raise SystemExit(f"{task}: labels of the sample are wrong, no speed is reported")
    seconds = []
    for _ in range(REPEATS):
        start = time.process_time()  # what other programs take of the core is not counted
        problem.sample(BATCH, LENGTH, rng)
        seconds.append(time.process_time() - start)
    rates = np.array([BATCH * LENGTH / elapsed / 1e6 for elapsed in seconds])
    return {
        "task": task,
        "hard_fraction": problem.hard_fraction,
        "million_tokens_per_second": {
            "best": round(float(rates.max()), 1),
            "median": round(float(np.median(rates)), 1),
            "worst": round(float(rates.min()), 1),
        },
        "seconds": [round(elapsed, 5) for elapsed in seconds],
    }


def main() -> None:
    if hasattr(os, "sched_setaffinity"):  # numpy needs no second core here: this makes sure of it
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    results = [measure(*case) for case in CASES]
    for result in results:
        rates = result["million_tokens_per_second"]
        print(f"{result['task']:<16} hard_fraction {result['hard_fraction']:<4} {rates}")
    if len(sys.argv) > 1:
        environment = {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "machine": platform.machine(),
            "system": platform.system(),
            "cores_used": 1,
            "batch": BATCH,
            "length": LENGTH,
        }
        Path(sys.argv[1]).write_text(
            json.dumps({"environment": environment, "results": results}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
