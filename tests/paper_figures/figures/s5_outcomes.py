"""Made-up outcomes of the grid of S5, for the two figures drawn from it."""

from analysis.framework.output import RunIdentity
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Record
from paper_figures.figures.s5_length_generalization import EXPERIMENT
from paper_figures.figures.s5_training import ACCURACY, POSITIONS, SETTINGS

POINTS = EXPERIMENT.points
IDENTITY = RunIdentity("run", "S5-generators", "implicit-mamba2", 10, 32, 0, "0" * 64)
LENGTHS = SETTINGS.lengths


def outcome(point: Point, accuracy: float) -> Outcome:
    """A run that is right up to 32 tokens, and so often beyond."""
    value = {
        "accuracy": {str(length): 1.0 if length <= 32 else accuracy for length in LENGTHS},
        "interval": {},
        "share_converged": None,
        "chance": 1 / 120,
        "by_position": [1.0] * POSITIONS,
    }
    records = {
        "training": Record.done(point, None, IDENTITY, None, 1.0),
        "accuracy": Record.done(point, ACCURACY, IDENTITY, value, 2.0),
    }
    return Outcome(point, records, complete=True)


def failed(point: Point) -> Outcome:
    record = Record.failed(point, None, ValueError("no luck"), None, 1.0)
    return Outcome(point, {"training": record}, complete=True)


def points_of(model: str, layers: int = 1) -> list[Point]:
    return [
        point
        for point in POINTS
        if point.config.model == model and point.config.sizes.get("layers", 1) == layers
    ]
