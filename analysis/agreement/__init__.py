"""Do both modes of evaluation reach the same fixed points? ``python -m analysis.agreement RUN``.

Both modes are solved twice in float64, the second time to a hundredth of the tolerance. How far the latents
move in between, for each unit of residual, is the measured amplification of residuals into errors, which may
grow along the sequence. With it, and a decade of margin since it is an estimate, the second residuals say how
far apart two approximations of one fixed point can be.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from analysis.agreement.fixed_point_search import (
    SEARCHED,
    TokenFixedPoints,
    search_fixed_points,
    states_before,
)
from analysis.framework.analysis import ReportSection, RunAnalysis
from analysis.framework.arrays import BoolArray
from analysis.framework.figures import TEXT_WIDTH, legend_below, log_axis, new_panels, styled
from analysis.framework.finding import Answer, Finding, Rows, for_title
from analysis.framework.needs import FIXED_POINTS, as_implicit
from analysis.framework.output import RunIdentity
from analysis.framework.palette import FINDING_LOOKS, GREY, RED
from analysis.framework.settings import SampleSettings, settings_from
from analysis.framework.terminal import number, percent
from analysis.framework.visited_states import in_double_precision, relative_distance, sample_sequences
from automata.checks import at_least, at_most
from implicit.fixed_point import Stopping
from implicit.models.interface import FixedPointModel
from implicit.modes import Mode, SequenceSolution, Solve
from implicit.runs.loading import Run
from theory.fixed_point import ERROR_MARGIN

__all__ = ["ANALYSIS", "AgreementAnalysis", "AgreementSettings", "analyse", "draw", "main"]

TIGHTENING = 100.0  # the second tolerance is this much smaller than the first
DEMANDED = 0.999  # the share of tokens that has to agree; less is told in red
LIMITS = (
    "Agreement is measured on these sequences. Other fixed points are searched from a few random latents: "
    "one that repels the iteration, or whose basin was not hit, is not found."
)


class AgreementSettings(SampleSettings):
    """How the modes are compared."""

    sequences: PositiveInt = Field(default=32, description="sequences of the task that are compared")
    length: PositiveInt = Field(default=256, description="tokens per sequence")
    rtol: PositiveFloat = Field(
        default=1e-4, description="first relative tolerance; the second is a hundredth"
    )
    max_iterations: PositiveInt = Field(default=1000, description="the most self-iterations of each solve")
    examples: NonNegativeInt = Field(default=16, description="tokens whose other fixed points are searched")
    starts: NonNegativeInt = Field(default=16, description="random starts of each such search")


@dataclass(frozen=True, eq=False)
class AgreementAnalysis(Answer):
    """The answer of `analyse`, with arrays ``[sequences, length]``."""

    run: RunIdentity
    settings: AgreementSettings
    converged: BoolArray  # tokens that converged in both modes, at both tolerances
    distance: NDArray[np.float64]  # ‖z − z̃‖ / ‖z‖ between the modes at the second tolerance
    tolerance: NDArray[np.float64]  # the distance up to which the two are the same fixed point
    amplification: float  # largest error per residual that was measured, both relative to ‖z‖
    same_answer: BoolArray  # tokens from which both modes decode the same class
    searches: tuple[TokenFixedPoints, ...]  # the fixed points of example tokens
    state_names: tuple[str, ...]  # of the classes

    @property
    def agrees(self) -> BoolArray:
        """Tokens at which both modes converged, to the same fixed point."""
        return self.converged & (self.distance <= self.tolerance)

    @property
    def differs(self) -> BoolArray:
        """Tokens at which both modes converged, to different fixed points."""
        return self.converged & ~(self.distance <= self.tolerance)

    @property
    def shares(self) -> dict[str, float]:
        """The shares of all tokens that agree, differ, and did not converge in both modes."""
        return {
            "agree": float(self.agrees.mean()),
            "differ": float(self.differs.mean()),
            "unconverged": float((~self.converged).mean()),
        }

    @property
    def is_demanded(self) -> bool:
        """Say whether at least 99.9% of all tokens agree; those that did not converge do not."""
        return self.shares["agree"] >= DEMANDED

    @property
    def sentence(self) -> str:
        """The finding with its numbers."""
        shares = self.shares
        return (
            f"both modes reach the same fixed point at {percent(shares['agree'], 2)} of {self.agrees.size} "
            f"tokens, different ones at {percent(shares['differ'], 2)}, none in at least one mode at "
            f"{percent(shares['unconverged'], 2)}; they decode the same answer at "
            f"{percent(self.same_answer.mean(), 2)}"
        )

    @property
    def finding(self) -> Finding:
        """Shares of tokens and sequences, and the example tokens with several fixed points."""
        numbers = self.numbers()
        shares = [
            ["same fixed point", numbers["tokens"], numbers["sequences"]],
            ["different fixed points", self.shares["differ"], self.differs.any(axis=1).mean()],
            ["not converged", self.shares["unconverged"], (~self.converged).any(axis=1).mean()],
            ["same answer", numbers["decoded_tokens"], numbers["decoded_sequences"]],
        ]
        same, other = numbers["largest_distance_of_same"], numbers["smallest_distance_of_different"]
        distances = (
            f"Relative distance of the same fixed points: at most {'–' if same is None else at_most(same)}; "
            f"of different ones: at least {'–' if other is None else at_least(other)}. Tolerance (median): "
            f"{number(numbers['tolerance']['median'])}."
        )
        several = [search for search in self.searches if len(search.fixed_points) > 1]
        rows = [
            Rows(
                ["share of", "tokens", "sequences"],
                [[label, percent(tokens, 3), percent(sequences, 3)] for label, tokens, sequences in shares],
                note=distances,
            )
        ]
        if found := several if self.is_demanded else self.searches:
            rows.append(Rows(SEARCHED, [row for search in found for row in search.rows(self.state_names)]))
        searched = f"; {len(several)} of {len(self.searches)} example tokens have several fixed points"
        less = (
            f"less than {DEMANDED:.1%} of the tokens agree between the modes; where they differ, trust the "
            "sequential one, whose answer model(tokens) gives (docs/when_modes_agree.md)"
        )
        return Finding(
            self.sentence + (searched if self.searches else ""),
            rows,
            limits=LIMITS,
            warnings=[] if self.is_demanded else [less],
            holds=self.is_demanded,
        )

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON."""
        same, other = self.distance[self.agrees], self.distance[self.differs]
        return {
            "tokens": self.shares["agree"],
            "shares": self.shares,
            "decoded_tokens": self.same_answer.mean(),
            "sequences": self.agrees.all(axis=1).mean(),
            "decoded_sequences": self.same_answer.all(axis=1).mean(),
            "demanded": DEMANDED,
            "is_demanded": self.is_demanded,
            "sentence": self.sentence,
            "amplification": self.amplification,
            "tolerance": {"median": np.median(self.tolerance), "max": self.tolerance.max()},
            "largest_distance_of_same": same.max() if same.size else None,
            "smallest_distance_of_different": other.min() if other.size else None,
            "fixed_points": [dataclasses.asdict(search) for search in self.searches],
        }


def analyse(run: Run, settings: AgreementSettings | None = None, **chosen: Any) -> AgreementAnalysis:
    """Compare the fixed points of the two modes, and search for others at example tokens.

    The run is of an implicit model; settings can be given by name instead. InputError for a bad setting, or a
    model without fixed points.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity"), sequences=2, length=8, examples=0)
        >>> found.shares, found.is_demanded
        ({'agree': 1.0, 'differ': 0.0, 'unconverged': 0.0}, True)
    """
    settings = settings_from(AgreementSettings, chosen, settings)
    model = in_double_precision(as_implicit(run))
    drawn = sample_sequences(run.task, settings.sequences, settings.length, settings.seed)
    tokens, labels = (part.to(model.device) for part in drawn)
    simultaneous, sequential = (
        _solve_twice(model, tokens, mode, settings) for mode in ("simultaneous", "sequential")
    )
    converged = simultaneous.converged & sequential.converged
    amplification = _amplification(converged, simultaneous.amplification, sequential.amplification)
    one, other = simultaneous.solution, sequential.solution
    distance = relative_distance(one.latents, other.latents)
    result = AgreementAnalysis(
        RunIdentity.of(run),
        settings,
        converged.cpu().numpy(),
        distance.cpu().numpy(),
        (ERROR_MARGIN * amplification * (simultaneous.residual + sequential.residual)).cpu().numpy(),
        float(amplification[-1]),
        # an answer that is NaN is none
        ((simultaneous.answers == sequential.answers) & (simultaneous.answers >= 0)).cpu().numpy(),
        (),
        run.task.target_names,
    )
    return dataclasses.replace(
        result, searches=_search(result, model, tokens, labels, one.latents, other.latents)
    )


@dataclass(frozen=True, eq=False)
class _SolvedTwice:
    """One mode at both tolerances: ``[sequences, length]``."""

    solution: SequenceSolution
    answers: Tensor
    converged: Tensor
    residual: Tensor
    amplification: Tensor


@torch.no_grad()
def _solve_twice(
    model: FixedPointModel, tokens: Tensor, mode: Mode, settings: AgreementSettings
) -> _SolvedTwice:
    limit = settings.max_iterations
    loose = Stopping(rtol=settings.rtol, max_iterations=limit)
    first = model.fixed_points(tokens, solve=Solve(mode, stopping=loose))
    tighter = Stopping(rtol=settings.rtol / TIGHTENING, max_iterations=limit)
    output = model.run(tokens, solve=Solve(mode, stopping=tighter, start=first.latents))
    second = output.solution
    assert second is not None
    moved = relative_distance(first.latents, second.latents)
    # The error of a token comes from its own residual and from those before it, through the state.
    before, after = (solution.relative_residual.cummax(dim=1).values for solution in (first, second))
    answers = output.answers
    return _SolvedTwice(second, answers, first.converged & second.converged, after, _over(moved, before))


def _over(moved: Tensor, residual: Tensor) -> Tensor:
    """How far a token moved over its residual; 0 where neither is anything, as at a fixed point of 0."""
    return torch.where(moved == 0, 0.0, moved / residual)


def _amplification(converged: Tensor, *measured: Tensor) -> Tensor:
    """The largest amplification at or before every position, over modes and sequences: ``[length]``.

    At least 1, for an error is of the order of its residual or more: a token that did not move was merely
    solved well at once.
    """
    largest = torch.stack(measured).amax(dim=0).where(converged, 1.0).amax(dim=0)
    return largest.clamp_min(1.0).cummax(dim=0).values


def _search(
    found: AgreementAnalysis,
    model: FixedPointModel,
    tokens: Tensor,
    labels: Tensor,
    simultaneous: Tensor,
    sequential: Tensor,
) -> tuple[TokenFixedPoints, ...]:
    """Search the fixed points of example tokens from zero, both modes' latents, and random starts."""
    settings = found.settings
    examples = _examples(found)
    if not examples:
        return ()
    rows = [sequence for sequence, _, _ in examples]
    states = states_before(model, tokens[rows], sequential[rows], [position for _, position, _ in examples])
    generator = torch.Generator().manual_seed(settings.seed)
    scale = sequential.square().mean().sqrt()
    searches = []
    for (sequence, position, reason), state in zip(examples, states, strict=True):
        modes = torch.stack([simultaneous[sequence, position], sequential[sequence, position]])
        random = torch.randn(settings.starts, model.latent_size, generator=generator, dtype=torch.float64)
        starts = torch.cat([modes, torch.zeros_like(modes[:1]), scale * random.to(modes.device)])
        token = int(tokens[sequence, position])
        names = ["simultaneous", "sequential"]
        points, unconverged = search_fixed_points(model, token, state, starts, names, settings.max_iterations)
        label = int(labels[sequence, position])
        searches.append(TokenFixedPoints(sequence, position, token, label, reason, points, unconverged))
    return tuple(searches)


def _examples(found: AgreementAnalysis) -> list[tuple[int, int, str]]:
    """Choose (sequence, position, reason): where modes first differ, where one first fails, and a sample."""
    count = found.settings.examples
    chosen: dict[tuple[int, int], str] = {}
    for mask, reason, share in (
        (found.differs, "modes differ", 0.5),
        (~found.converged, "not converged", 0.25),
    ):
        # Later ones in the same sequence may only be consequences of the first.
        firsts = [(int(row), int(mask[row].argmax())) for row in np.flatnonzero(mask.any(axis=1))]
        for place in firsts[: int(count * share)]:
            chosen.setdefault(place, reason)
    rng = np.random.default_rng(np.random.SeedSequence(found.settings.seed, spawn_key=(1,)))
    everywhere = rng.permutation(found.converged.size)
    for place in everywhere:
        if len(chosen) >= min(count, found.converged.size):
            break
        row, column = divmod(int(place), found.converged.shape[1])
        chosen.setdefault((row, column), "sample")
    return [(row, column, reason) for (row, column), reason in chosen.items()]


SAME, DIFFERENT, UNCONVERGED = (FINDING_LOOKS[name].color for name in ("holds", "fails", "inconclusive"))


def draw(found: AgreementAnalysis, width: float = TEXT_WIDTH) -> Figure:
    """Draw distances, shares by position, and the fixed points of the example tokens."""
    with styled():
        figure, (distance, position, points) = new_panels(
            width, 3, **for_title(found.run.title, found.finding), height=2.75
        )
        _draw_distances(distance, found)
        _draw_positions(position, found)
        _draw_fixed_points(points, found)
        return figure


def _draw_distances(axes: Axes, found: AgreementAnalysis) -> None:
    smallest = np.finfo(np.float64).eps
    for mask, label, color in (
        (found.agrees, "same fixed point", SAME),
        (found.differs, "different fixed points", DIFFERENT),
        (~found.converged, "not converged", UNCONVERGED),
    ):
        if mask.any():
            values = np.log10(np.maximum(found.distance[mask], smallest))
            bins = np.linspace(-16, 1, 86).tolist()
            axes.hist(values, bins=bins, color=color, alpha=0.7, label=f"{label}: {percent(mask.mean(), 2)}")
    tolerance = np.log10(np.median(found.tolerance))
    axes.axvline(tolerance, color="black", linestyle="--", linewidth=0.9, label="tolerance (median)")
    axes.set(title="distance between the modes", xlabel="log10 of the relative distance", ylabel="tokens")
    log_axis(axes)
    axes.set_ylim(bottom=0.7)  # a single token shows
    axes.set_xticks(range(-16, 1, 4))
    legend_below(axes)


def _draw_positions(axes: Axes, found: AgreementAnalysis) -> None:
    x = np.arange(1, found.settings.length + 1)
    axes.stackplot(
        x,
        [mask.mean(axis=0) for mask in (found.agrees, found.differs, ~found.converged)],
        labels=["same fixed point", "different ones", "not converged"],
        colors=[SAME, DIFFERENT, UNCONVERGED],
        alpha=0.8,
        step="mid" if len(x) > 1 else None,
    )
    axes.plot(x, found.same_answer.mean(axis=0), color="black", linewidth=1, label="same answer")
    axes.set(
        title="agreement by position",
        xlabel="position of the token",
        ylabel="share of sequences",
        ylim=(0, 1.05),
    )
    legend_below(axes)


def _draw_fixed_points(axes: Axes, found: AgreementAnalysis) -> None:
    axes.axhline(1, color=GREY, linewidth=0.8)
    seen = set()
    for place, search in enumerate(found.searches, start=1):
        if not search.fixed_points:
            axes.text(place, 0.5, "no start converged", rotation=90, ha="center", va="center", color=RED)
        total = sum(point.starts for point in search.fixed_points) + search.unconverged
        for point in search.fixed_points:
            right = point.answer == search.label
            label = f"decodes the {'right' if right else 'wrong'} answer"
            look = FINDING_LOOKS["holds" if right else "fails"]
            size = 2 + 5 * (point.starts / total) ** 0.5
            named: dict[str, Any] = {"markersize": size, "label": None if label in seen else label}
            axes.plot(place, point.spectral_radius, look.marker, color=look.color, **named)
            seen.add(label)
    axes.set(
        title="fixed points of examples",
        xlabel="example token",
        ylabel="spectral radius (< 1: attracts)",
        xlim=(0.3, len(found.searches) + 0.7),
    )
    axes.set_ylim(0, max(1.05, axes.get_ylim()[1]))
    if seen:
        legend_below(axes)


ANALYSIS = RunAnalysis(
    name="agreement",
    question="Do both modes of evaluation reach the same fixed points? Which others exist?",
    description="Compare the fixed points that simultaneous and sequential evaluation reach, and search for "
    "others.",
    settings=AgreementSettings,
    measure=analyse,
    draw=draw,
    shows="Left: distances ‖z − z̃‖ / ‖z‖ between the two modes, in float64; two within the tolerance are "
    "the same fixed point. Middle: shares of sequences by position. Right: fixed points of example tokens, "
    "found from random starts, zero and both modes' latents. The larger a mark, the more starts led there; "
    "one with a spectral radius below 1 attracts the iteration.",
    needs=FIXED_POINTS,
    section=ReportSection(
        settings={
            "sequences": "agreement_sequences",
            "length": "mode_length",
            "max_iterations": "max_iterations",
            "seed": "seed",
        },
        priority=3,
        content=lambda run, result: {"agreement": result, "state_names": run.task.target_names},
    ),
)
main = ANALYSIS.main
