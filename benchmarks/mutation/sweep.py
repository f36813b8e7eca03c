"""All mutants of an area, one after another, each stored as soon as it is known what became of it."""

import resource
from pathlib import Path

from tqdm import tqdm

from benchmarks.mutation.areas import Area
from benchmarks.mutation.mutants import Mutant, sample
from benchmarks.mutation.reach import Reach
from benchmarks.mutation.record import Results
from benchmarks.mutation.trial import Trials, copy_of_repository


def sweep(root: Path, name: str, area: Area, size: int, seed: int, results: Results, again: bool) -> None:
    """Try the mutants of an area that are not stored yet.

    Args:
        root: of the repository.
        name: of the area.
        area: its modules and tests.
        size: mutants to draw.
        seed: of the draw.
        results: where they are stored.
        again: whether those that survived are tried once more.

    Raises:
        RuntimeError: if the tests do not pass without a fault, or not in the order of the trials.
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
        if reach.failed:
            raise RuntimeError(f"{name}: {', '.join(reach.failed)} fail without any fault")
        for file, source in list(sources.items())[:1]:
            everything = sorted(reach.seconds)
            as_it_is = Mutant(file, "none", 1, "", file, source)
            if trials.run(as_it_is, everything, sum(reach.seconds.values())) != "survived":
                raise RuntimeError(f"{name}: the tests fail without any fault when they are run in a child")
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
