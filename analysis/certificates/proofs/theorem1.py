"""Theorem 1 of a trained model at visited states; of an explicit model the opposite.

How the statements are proved stands in `theory.rigorous.enclosure`, their words in
`analysis.certificates.claims.theorem1`.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import Field, PositiveInt
from tqdm import tqdm

from analysis.certificates.certificate import Claim
from analysis.certificates.claims.theorem1 import (
    OF_LAYERS,
    OF_THE_PROGRAM,
    Claimed,
    ControlPair,
    Elsewhere,
    Explicit,
    Pair,
    Point,
    Range,
    Theorem1,
    layers_of,
    non_linear,
    summarise,
)
from analysis.certificates.producing import Found, Proof, stated
from analysis.certificates.proofs.pairs import (
    MAX_COMPANIONS,
    Sites,
    certify_control,
    companions,
    prove_points,
    prove_ranges,
    visited_sites,
)
from analysis.framework.finding import Rows
from analysis.framework.needs import BALL_ARITHMETIC
from analysis.framework.output import RunIdentity
from analysis.framework.settings import SampleSettings, settings_from
from analysis.framework.terminal import number
from analysis.framework.visited_states import VisitedState, in_double_precision, sample_batch, visited_states
from implicit.models.interface import FixedPointModel
from implicit.runs.loading import Run


class CertifySettings(SampleSettings):
    """Which states are visited."""

    states: PositiveInt = Field(default=256, description="visited (state, token) pairs to certify")


@dataclass(frozen=True, eq=False)
class FoundPairs(Found):
    """What is proved of visited pairs."""

    run: RunIdentity
    settings: CertifySettings
    pairs: list[Pair] | list[ControlPair]
    statements: dict[str, str]
    layers: int
    seconds: float

    @property
    def summary(self) -> dict[str, int]:
        """Of how many pairs each statement is proved."""
        return summarise(self.pairs)

    def numbers(self) -> dict[str, Any]:
        """Return how many pairs each statement is proved of."""
        return dict(self.summary)

    @property
    def sentence(self) -> str:
        """At how many pairs all of it is proved."""
        if "explicit" in self.summary:
            of, proved = "∂h'/∂h is proved diagonal, and the same at every real h", self.summary["explicit"]
        else:
            of = "C1 to C4 of Theorem 1 are proved"
            proved = sum(
                pair.non_diagonal and pair.non_linear for pair in self.pairs if isinstance(pair, Pair)
            )
        return f"{of} at {proved} of {len(self.pairs)} pairs of a state and a token"

    @property
    def limits(self) -> str:
        """What is not proved."""
        layers = f"proved of {OF_LAYERS}; " if self.layers > 1 else ""
        program = "" if "explicit" in self.summary else f", nor {OF_THE_PROGRAM}"
        return f"{layers}not proved is anything of other states{program}"

    def rows(self) -> list[Rows]:
        """Return counts and bounds, and why no more is proved."""
        summary = self.summary
        total = summary.pop("pairs")
        implicit = [pair for pair in self.pairs if isinstance(pair, Pair)]
        bounds, rows = _bounds(implicit), []
        for statement, count in summary.items():
            name, values = bounds.get(statement, ("", []))
            spread = np.quantile(values, (0, 0.5, 1)) if values else (None, None, None)
            rows.append([LABELS[statement], f"{count}/{total}", name, *map(number, spread)])
        found = [Rows(["statement", "pairs", "bound", "min", "median", "max"], rows, self.run.title)]
        reasons = Counter(reason for pair in implicit for reason in reasons_of(pair))
        if reasons:
            missing = [[reason, str(count)] for reason, count in reasons.items()]
            found.append(Rows(["why no more is proved", "pairs"], missing))
        return found

    @property
    def claims(self) -> list[Claim]:
        """All pairs, also those of which nothing is proved."""
        kind = Explicit if "explicit" in self.summary else Theorem1
        settings = self.settings.model_dump()
        fields: dict[str, Any] = {"settings": settings, "pairs": self.pairs, "summary": self.summary}
        return [kind(statements=self.statements, **fields)]


def prove(run: Run, settings: CertifySettings | None = None, **chosen: int) -> FoundPairs:
    """Prove what can be proved of a run at visited pairs."""
    settings = settings_from(CertifySettings, chosen, settings)
    began = time.monotonic()
    BALL_ARITHMETIC.require(run)
    batch = sample_batch(run.task, settings.sequences, settings.length, settings.seed)
    model = in_double_precision(run.model)
    visited = visited_states(model, batch.tokens, settings.states, lengths=batch.lengths)
    pairs: list[Pair] | list[ControlPair]
    implicit = run.model.implicit
    if implicit is None:
        pairs = certify_control(run.model, visited)
    else:
        pairs = certify_pairs(implicit, visited)
    words = stated(Explicit if implicit is None else Theorem1, run)
    layers = layers_of(run.config.as_json())
    return FoundPairs(RunIdentity.of(run), settings, pairs, words, layers, time.monotonic() - began)


def certify_pairs(model: FixedPointModel, visited: Sequence[VisitedState]) -> list[Pair]:
    """Prove A1 to A6 at visited pairs, as far as they can be."""
    with tqdm(total=4, desc="certify", unit="stage", leave=False, disable=None) as bar:
        sites = visited_sites(model, visited)
        bar.update()
        points = prove_points(sites)
        bar.update()
        elsewhere = _prove_elsewhere(sites, points)
        bar.update()
        ranges, radii = prove_ranges(sites)
        bar.update()
    pairs = []
    for index, pair in enumerate(visited):
        point, box = (points[index], ranges[index]) if pair.reached else (None, None)
        if point is None or box is None or not _same_fixed_point(point, box):
            box = None
        other = elsewhere[index] if point is not None else None
        if other is not None and not visited[other.pair].reached:
            other = None
        pairs.append(
            Pair(
                sequence=pair.sequence,
                position=pair.position,
                token=pair.token,
                state={name: entry.numpy().ravel() for name, entry in pair.state.items()},
                places=[(int(rows[index]), int(columns[index])) for rows, columns in sites.places],
                point=point,
                elsewhere=other,
                range=None if box is None else Range(**dict(box), state_radius=float(radii[index])),
            )
        )
    return pairs


def _same_fixed_point(point: Point, box: Claimed) -> bool:
    """Whether the ball of a claim over a box of h holds the fixed point that the iteration tends to."""
    apart = float(np.abs(box.latent - point.latent).max()) * (1 + 2.0**-50)
    return point.attracts and (apart + point.error) * (1 + 2.0**-50) <= box.radius


def _prove_elsewhere(sites: Sites, points: Sequence[Point | None]) -> list[Elsewhere | None]:
    """Claims at companions of points with C1 to C3; at nearer ones where the farther shows nothing."""
    found: list[Elsewhere | None] = [None] * len(points)
    for attempt in range(MAX_COMPANIONS):
        missing = np.array(
            [
                i
                for i, point in enumerate(points)
                if point and point.attracts and not non_linear(point, found[i])
            ],
            dtype=np.int64,
        )
        if not len(missing):
            break
        others = companions(sites, attempt)
        missing = missing[others.differ[missing]]
        for index, claim in zip(missing, prove_points(others.sites[missing]), strict=True):
            if claim is not None:
                found[index] = Elsewhere(**dict(claim), pair=int(others.pairs[index]))
    return found


def reasons_of(pair: Pair) -> list[str]:
    """Return why a statement is not proved of a pair; nothing where all are."""
    if pair.point is None:
        return [
            "no fixed point was found, I − ∂zΦ is nearly singular there, or a token before did not converge"
        ]
    reasons = []
    if pair.point.contraction is None:
        reasons.append("no power up to 1024 of the damped step contracts")
    elif pair.point.orbit is None:
        reasons.append("the iteration from zero is not proved to come near this fixed point")
    elif not pair.non_diagonal:
        reasons.append("the entry's enclosure holds zero")
    if pair.attracts:
        reasons += _reasons_of_linearity(pair)
    if pair.range is None:
        reasons.append("no box of states was found for which all statements are proved")
    return reasons


def _reasons_of_linearity(pair: Pair) -> list[str]:
    if pair.elsewhere is None:
        return ["no fixed point was proved beside another h"]
    if not pair.elsewhere.attracts:
        return ["beside another h the iteration from zero is not proved to tend to the fixed point"]
    return [] if pair.non_linear else ["the entry's enclosures at both states overlap"]


LABELS = {
    "existence": "A1 one fixed point in the ball",
    "invertibility": "A2 I − ∂zΦ invertible",
    "contraction": "A3 damped step contracts there",
    "orbit": "A6 orbit of z0 = 0 ends there: C3 whole",
    "non_diagonal": "A4 non-diagonal",
    "non_linear": "A4 non-linear",
    "range": "A5 the same over a box of h",
    "explicit": "∂h'/∂h diagonal, and the same at all h",
}


def _bounds(pairs: Sequence[Pair]) -> dict[str, tuple[str, list[float]]]:
    points = [pair.point for pair in pairs if pair.point is not None]
    contractions = [point.contraction for point in points if point.contraction is not None]
    orbits = [point.orbit for point in points if point.orbit is not None]
    return {
        "existence": ("distance to the fixed point", [point.error for point in points]),
        "invertibility": ("smallest singular value", [point.singular_value for point in points]),
        "contraction": ("factor a step", [contraction.factor for contraction in contractions]),
        "orbit": ("steps to get near it", [float(orbit.iterations) for orbit in orbits]),
        "non_diagonal": ("entry", [min(map(abs, pair.point.entries[0])) for pair in pairs if pair.point]),
        "range": ("radius in h", [pair.range.state_radius for pair in pairs if pair.range]),
    }


PROOFS = (
    Proof(
        claim="theorem1",
        question="What of Theorem 1 can be proved at visited states? A certificate.",
        description="Prove Theorem 1 of a model at visited states.",
        settings=CertifySettings,
        needs=BALL_ARITHMETIC,
        prove=prove,
    ),
)
