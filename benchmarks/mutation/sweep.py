"""All mutants of an area, one after another, each stored as soon as it is known what became of it."""

import resource
import sys
from pathlib import Path

from tqdm import tqdm

from benchmarks.mutation.areas import Area
from benchmarks.mutation.mutants import Mutant, sample
from benchmarks.mutation.reach import Reach
from benchmarks.mutation.record import Results
from benchmarks.mutation.trial import Trials, copy_of_repository


def sweep(root: Path, name: str, area: Area, size: int, seed: int, results: Results, again: bool) -> None:
    """Try the mutants of an area that are not stored yet, and those that survived once more if ``again``.

    A test that fails without any fault is left out, and told on standard error.
    """
    sources = {file: (root / file).read_text() for file in area.files(root)}
    drawn = sample(sources, size, seed)
    results.keep(name, {mutant.name for mutant in drawn})
    stored = results.read()["areas"][name]
    missed = {one for one, entry in stored.items() if entry["outcome"] in ("survived", "not reached")}
    due = [mutant for mutant in drawn if mutant.name not in stored or (again and mutant.name in missed)]
    if not due:
        return
    with copy_of_repository(root) as copy:
        trials = Trials(copy, area)
        reach = trials.reach()
        for test in reach.failed:  # it would notice every mutant
            tqdm.write(f"{name}: left out, for it fails without any fault: {test}", file=sys.stderr)
            reach.seconds.pop(test, None)
        for mutant in tqdm(due, desc=name, disable=None):
            results.add(name, mutant.name, _tried(trials, reach, mutant, sources[mutant.file]))


def _tried(trials: Trials, reach: Reach, mutant: Mutant, source: str) -> dict[str, object]:
    tests = reach.tests(mutant.file, source, mutant.line)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    outcome = trials.run(mutant, tests, sum(reach.seconds[test] for test in tests))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "outcome": outcome,
        "operator": mutant.operator.removeprefix("operator_"),
        "line": mutant.line,
        "change": mutant.change,
        "tests": len(tests),
        "seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
    }
