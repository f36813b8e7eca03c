"""The areas whose errors nobody would see: their modules, and the tests that should notice.

The tests of an area are those of its own modules and of what is built on them directly. A mutation that only
some distant test would notice counts as one that survived.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from automata.errors import unknown_name


@dataclass(frozen=True)
class Area:
    """Some modules with their tests: files or folders from the root of the repository.

    The examples in the modules are run in any case.
    """

    modules: tuple[str, ...]
    tests: tuple[str, ...]

    def files(self, root: Path) -> list[str]:
        """Return the modules' files, from the root."""
        return sorted(python_files(root, self.modules))


AREAS = {
    "streams": Area(
        (
            "implicit/training/streams.py",
            "automata/tasks/word_problem.py",
            "automata/tasks/interface.py",
            "automata/tasks/partially_observed.py",
        ),
        (
            "tests/implicit/training/test_streams.py",
            "tests/implicit/training/test_loop.py",
            "tests/automata/tasks",
        ),
    ),
    "evaluation": Area(
        ("implicit/training/evaluation.py", "analysis/length_generalization.py"),
        (
            "tests/implicit/training/test_evaluation.py",
            "tests/implicit/training/test_loop.py",
            "tests/analysis/test_length_generalization.py",
        ),
    ),
    "training": Area(
        (
            "implicit/training/loop.py",
            "implicit/training/objective.py",
            "implicit/training/state_passing.py",
            "implicit/training/train.py",
            "implicit/penalties",
            "implicit/config/curriculum.py",
            "implicit/config/optimizer.py",
            "implicit/config/evaluation.py",
        ),
        (
            "tests/implicit/penalties",
            "tests/implicit/training/test_loop.py",
            "tests/implicit/training/test_objective.py",
            "tests/implicit/training/test_state_passing.py",
            "tests/implicit/training/test_validation.py",
            "tests/implicit/config",
        ),
    ),
    "runs": Area(
        (
            "implicit/runs/files.py",
            "implicit/runs/folder.py",
            "implicit/runs/loading.py",
            "implicit/training/checkpoint.py",
            "implicit/training/optimizer_state.py",
        ),
        (
            "tests/implicit/runs",
            "tests/implicit/training/test_checkpoint.py",
            "tests/implicit/training/test_state_passing.py",
        ),
    ),
    "gradients": Area(("implicit/gradients",), ("tests/implicit/gradients",)),
    "modes": Area(
        (
            "implicit/modes/adjoint.py",
            "implicit/modes/plain.py",
            "implicit/modes/problems.py",
            "implicit/modes/recurrence.py",
            "implicit/modes/solve.py",
            "implicit/modes/verification.py",
            "implicit/modes/windowed.py",
        ),
        (
            "tests/implicit/modes",
            "tests/implicit/models/test_implicit_mamba2.py",
            "tests/implicit/gradients/test_factored.py",
        ),
    ),
    "fixed-points": Area(("implicit/fixed_point",), ("tests/implicit/fixed_point", "tests/implicit/modes")),
    "enclosures": Area(
        (
            "theory/rigorous/balls",
            "theory/rigorous/enclosure.py",
            "implicit/enclosed",
        ),
        ("tests/theory/rigorous", "tests/implicit/enclosed"),
    ),
    "covers": Area(("theory/rigorous/covers",), ("tests/theory/rigorous/covers",)),
    "checkers": Area(
        (
            "analysis/certificates/arb",
            "analysis/certificates/certificate.py",
            "analysis/certificates/claims/lengths.py",
            "analysis/certificates/claims/words.py",
        ),
        ("tests/analysis/certificates", "tests/analysis/test_check_certificate.py"),
    ),
    "statistics": Area(
        (
            "analysis/agreement/__init__.py",
            "analysis/convergence.py",
            "analysis/jacobian/__init__.py",
            "theory/status.py",
            "theory/testing",
            "theory/theorem1/check.py",
            "theory/theorem1/conclusions.py",
            "theory/theorem1/conditions.py",
            "theory/theorem1/cross_checks.py",
        ),
        (
            "tests/analysis/agreement",
            "tests/analysis/test_convergence.py",
            "tests/analysis/jacobian",
            "tests/theory/theorem1",
            "tests/theory/test_testing.py",
        ),
    ),
}


def find_area(name: str) -> Area:
    """Return the area of that name.

    Example:
        >>> find_area("gradients").modules
        ('implicit/gradients',)
    """
    if name not in AREAS:
        raise unknown_name("area", name, AREAS)
    return AREAS[name]


def python_files(root: Path, places: Iterable[str]) -> set[str]:
    """Return the Python files of these files and folders, from the root."""
    found: set[str] = set()
    for place in places:
        path = root / place
        paths = path.rglob("*.py") if path.is_dir() else [path]
        found.update(str(one.relative_to(root)) for one in paths)
    return found
