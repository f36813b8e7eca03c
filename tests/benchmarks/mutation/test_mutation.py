"""The tool itself: a fault that a test notices is killed, one that it does not survives, in a copy only."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.mutation.areas import AREAS, Area
from benchmarks.mutation.record import Results, Score

pytest.importorskip("mutmut", reason="the extra 'mutation' is not installed")
pytest.importorskip("testmon", reason="the extra 'mutation' is not installed")
from benchmarks.mutation.__main__ import main
from benchmarks.mutation.mutants import Mutant, sample
from benchmarks.mutation.sweep import Trials, copy_of_repository, sweep

ROOT = Path(__file__).parents[3]
SOURCE = """
STEP = 1


def grow(x: int, by: int) -> int:
    return x + by
"""
TESTS = """
from automata_demo import grow


def test_sum():
    assert grow(1, 3) == 4
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one module and its tests."""
    root = tmp_path / "repository"
    (root / "tests").mkdir(parents=True)
    (root / "automata_demo.py").write_text(SOURCE)
    (root / "tests" / "test_demo.py").write_text(TESTS)
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\npythonpath = ['.']\n")
    subprocess.run(["git", "init", "-q", "."], cwd=root, check=True)
    return root


AREA = Area(("automata_demo.py",), ("tests",))


def test_every_mutant_of_a_small_module_ends_as_its_tests_say(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A test that fails without a fault is left out, or it would notice everything."""
    with (repository / "tests" / "test_demo.py").open("a") as file:
        file.write("\n\ndef test_it():\n    assert 1 == 2\n")
    results = Results(repository.parent / "mutation.json")
    sweep(repository, "demo", AREA, 1000, 0, results, again=False)
    told = "demo: left out, for it fails without any fault: tests/test_demo.py::test_it"
    assert told in capsys.readouterr().err
    stored = results.read()["areas"]["demo"]
    outcome = {entry["change"].splitlines()[1].strip("+ "): entry["outcome"] for entry in stored.values()}
    assert outcome["return x - by"] == "killed"
    assert outcome["STEP = 2"] == "survived"  # no test reads it
    assert (repository / "automata_demo.py").read_text() == SOURCE
    before = results.path.read_bytes()
    sweep(repository, "demo", AREA, 1000, 0, results, again=False)  # all are stored
    assert results.path.read_bytes() == before


def test_what_a_test_patches_is_seen_by_the_package(repository: Path) -> None:
    """pytest loads the module a second time if its examples are collected before the tests."""
    package = repository / "automata_pack"
    package.mkdir()
    (package / "__init__.py").write_text("from automata_pack.limits import cap")
    (package / "limits.py").write_text("LIMIT = 10\n\n\ndef cap(x):\n    return min(x, LIMIT)\n")
    (repository / "tests" / "test_demo.py").write_text(
        "import automata_pack\nfrom automata_pack import limits\n\n\ndef test_limit(monkeypatch):\n"
        "    monkeypatch.setattr(limits, 'LIMIT', 3)\n    assert automata_pack.cap(5) == 3\n"
    )
    source = (package / "limits.py").read_text()
    limit = next(one for one in sample({"automata_pack/limits.py": source}, None, 0) if one.line == 1)
    with copy_of_repository(repository) as copy:
        trials = Trials(copy, Area(("automata_pack/limits.py",), ("tests",)), patience=0.5)
        assert trials.failing == []
        assert trials.run(replace(limit, source=source.replace("min", "max"))) == "killed"
        trials.limit = 1.5  # what takes longer need not take three times the tests' own time
        assert (
            trials.run(replace(limit, source=source.replace("return", "while x:\n        x\n    return")))
            == "timed out"
        )


def test_what_is_left_out_has_no_mutants() -> None:
    source = '''
from os import path
__all__ = ["f"]


class A:
    """One."""

    x: int = field(description="how many", default=3)


def f(a: Literal["b"] = "c") -> None:
    """Two."""
    assert a != 1
    if a:
        raise ValueError("three")
    return zip(a, a, strict=True)
'''
    changed = {mutant.line for mutant in sample({"a.py": source}, None, 0)}
    lines = source.splitlines()
    assert {lines[line - 1].strip() for line in changed} == {"return zip(a, a, strict=True)"}
    found = [mutant.change for mutant in sample({"a.py": source}, None, 0)]
    assert not any("False" in change for change in found)


def test_a_sample_is_that_of_its_seed_and_its_operators_take_turns() -> None:
    file = "implicit/training/state_passing.py"
    sources = {file: (ROOT / file).read_text()}
    first, again, other = (sample(sources, 12, seed) for seed in (0, 0, 1))
    names = [[mutant.name for mutant in drawn] for drawn in (first, again, other)]
    assert names[0] == names[1] != names[2]
    assert len(set(names[0])) == 12
    assert len({mutant.operator for mutant in first}) >= 5


def test_a_name_does_not_depend_on_other_lines() -> None:
    def names(source: str) -> dict[str, Mutant]:
        return {mutant.change.splitlines()[-1]: mutant for mutant in sample({"a.py": source}, None, 0)}

    alone, moved = names("x = 3\n"), names("y = 'b'\n\n\nx = 3\n")
    assert alone["+x = 4"].name == moved["+x = 4"].name
    assert alone["+x = 4"].line != moved["+x = 4"].line


def test_what_became_of_a_mutant_at_first_stays_when_it_is_tried_again(tmp_path: Path) -> None:
    """Tests are written for those that survived: the first figure is the honest one of the draw."""
    results = Results(tmp_path / "mutation.json")
    for name, outcomes in {
        "a": ["killed"],
        "b": ["survived", "survived", "killed"],
        "c": ["survived"],
    }.items():
        for outcome in outcomes:
            results.add("gradients", name, {"outcome": outcome})
    results.explain("c", "the number is only a hint")
    results.add("gradients", "c", {"outcome": "survived"})
    score = results.scores()["gradients"]
    assert score == Score(mutants=3, killed=2, timed_out=0, survived=0, equivalent=1, at_once=1)
    assert "| 50% | 100% |" in results.table()


def test_areas_name_files_that_are_there() -> None:
    for area in AREAS.values():
        assert all((ROOT / place).exists() for place in (*area.modules, *area.tests))
        assert area.files(ROOT)


def test_the_command(tmp_path: Path, refuses: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path.parent / "mutation.json")
    assert "area 'gradiens' is unknown" in refuses(main, ["gradiens"])
    assert "sample is 0; give at least 1" in refuses(main, ["gradients", "--sample", "0"])
    assert "mutant 'a.py:1' was not tried" in refuses(main, ["--explain", "a.py:1", "why", "--out", out])
    Results(Path(out)).add("gradients", "a.py:1", {"outcome": "survived", "line": 3, "change": "-1\n+2"})
    main(["--survivors", "--out", out])
    assert capsys.readouterr().out == "a.py:1 (survived, line 3)\n-1\n+2\n"
    main(["--explain", "a.py:1", "only a hint", "--out", out])
    main(["--survivors", "--out", out])
    assert capsys.readouterr().out == "\n"
    main(["--table", "--out", out])
    assert capsys.readouterr().out.splitlines()[-1] == "| gradients | 1 | 0 | 0 | 0 | 1 | 100% | 100% |"


def test_stored_results_reach_their_aim() -> None:
    """Every equivalent mutant has its reason."""
    stored = json.loads((ROOT / "benchmarks" / "results" / "mutation.json").read_bytes())["areas"]
    assert set(stored) == set(AREAS)
    scores = Results(ROOT / "benchmarks" / "results" / "mutation.json").scores()
    assert sum(score.mutants for score in scores.values()) >= 300
    assert all(score.share >= 0.9 for score in scores.values())
    reasons = [
        entry["equivalent"] for area in stored.values() for entry in area.values() if "equivalent" in entry
    ]
    assert all(len(reason) > 15 for reason in reasons)
