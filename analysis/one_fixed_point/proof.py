"""That every word has just one fixed point: a proof, for every length.

By Theorem 1 of docs/when_modes_agree.md every word has exactly one fixed point, with all latents free, if
every token has exactly one at every state that words lead to through fixed points. Those states lie in the
sets that ``python -m analysis.all_lengths`` finds, where the iteration from zero is proved to tend to the
right answers. Here it is proved, for all latents and at all states of these sets, that there is no other
fixed point (`implicit.enclosed.one_fixed_point`). So whatever the simultaneous mode converges to is the
answer of the sequential one. That it converges, or where a tolerance stops it, is not proved here.

Sets that the block reads nearly alike are taken together. A model of eight features takes a quarter of an
hour of two cores; what is through is kept beside the results, and the same command goes on with it.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, PositiveFloat, PositiveInt
from tqdm import tqdm

from analysis import all_lengths
from analysis.all_lengths import AllLengthsAnalysis
from analysis.certificates.words.producer import enclosed_loop
from analysis.framework.needs import as_implicit
from analysis.framework.output import RunIdentity
from analysis.framework.settings import settings_from
from analysis.framework.visited_states import in_double_precision
from analysis.one_fixed_point.kept_parts import KeptParts, Pair, arrays_sha256
from automata.errors import InputError
from implicit.checked_config import CheckedConfig
from implicit.enclosed.closed_loop import EnclosedClosedLoop
from implicit.enclosed.one_fixed_point import DirectionCells, OneFixedPoint, prove_one_fixed_point
from implicit.runs.loading import Run, load_run
from theory.rigorous.balls import Ball
from theory.rigorous.balls.ball import Array
from theory.rigorous.covers.invariant_cover import extents


class OneFixedPointSettings(CheckedConfig):
    """How the proof goes about it; what is proved does not depend on it.

    Example:
        >>> OneFixedPointSettings(processes=1).spread
        0.0065
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    spread: PositiveFloat = Field(
        default=0.0065,
        description="sets are taken together of whose states the block reads numbers that differ by less",
    )
    limit: PositiveInt = Field(default=10**9, description="cells to examine at most, of each group and token")
    processes: PositiveInt = Field(default=2, description="processes that work in parallel")


@dataclass(frozen=True, eq=False)
class OneFixedPointAnalysis:
    """What `analyse` returns.

    Attributes:
        run: which run.
        settings: what was chosen.
        cover: the sets of states, and what is proved of the iteration from zero.
        groups: of each set the number of its group, ``[sets]``.
        found: what is proved, by the numbers of group and token; empty without a cover.

    Example:
        `analyse` returns one.
    """

    run: RunIdentity
    settings: OneFixedPointSettings
    cover: AllLengthsAnalysis
    groups: NDArray[np.int64]
    found: dict[tuple[int, int], OneFixedPoint]

    @property
    def proved(self) -> bool:
        """Whether every word of every length is proved to have exactly one fixed point."""
        return self.cover.proved and bool(self.found) and all(part.proved for part in self.found.values())

    @property
    def sentence(self) -> str:
        """The finding, with what it rests on."""
        if not self.cover.proved:
            return f"nothing is proved: of the sets, {self.cover.sentence}"
        sets, cells = len(self.groups), sum(part.cells for part in self.found.values())
        through = sum(part.proved for part in self.found.values())
        if not self.proved:
            return (
                f"not proved: exactly one fixed point is shown at {through} of {len(self.found)} pairs of a "
                f"group of sets and a token ({cells:,} cells)"
            )
        return (
            "proved, in exact arithmetic, of words of every length: each has exactly one fixed point, with "
            "all latents free, and it is the one that the sequential iteration from zero tends to, whose "
            "answers are right; so whatever the simultaneous mode tends to, iterated without end, answers "
            f"rightly. At the states of {sets} sets, in {len(self.found)} pairs of a group and a token, "
            f"{cells:,} cells of latents hold no other. That the simultaneous mode converges is not proved, "
            "and nothing of where a tolerance stops it; nor does any certificate say this: one program "
            "computed it, in float64 with bounds of its rounding"
        )

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {
            "sentence": self.sentence,
            "proved": self.proved,
            "sets": len(self.groups),
            "groups": int(self.groups.max()) + 1 if len(self.groups) else 0,
            "cells": sum(part.cells for part in self.found.values()),
            "pairs": [
                {"group": group, "token": token, "sets": int((self.groups == group).sum()), **asdict(part)}
                for (group, token), part in sorted(self.found.items())
            ],
        }


def analyse(
    run: Run,
    settings: OneFixedPointSettings | None = None,
    folder: Path | None = None,
    **chosen: Any,
) -> OneFixedPointAnalysis:
    """Prove that words of every length have exactly one fixed point.

    Args:
        run: a run of which `analysis.all_lengths` proves that it is right on words of every length; of one
            layer, one head, d_state 1.
        settings: how to go about it.
        folder: where what is through is kept, and looked for; nowhere if None.
        chosen: settings by name, instead.

    Raises:
        InputError: for a bad setting, another model, or parts in the folder of another run, cover or setting.

    Example:
        >>> found = analyse(load_run("parity-tiny"), processes=1)
        >>> found.proved, found.sentence[:59]
        (True, 'proved, in exact arithmetic, of words of every length: each')
    """
    settings = settings_from(OneFixedPointSettings, chosen, settings)
    loop = enclosed_loop(in_double_precision(as_implicit(run)))
    DirectionCells(as_implicit(run), 0, Ball.exact(np.zeros(loop.state_size)))  # refuses what it cannot take
    cover = all_lengths.analyse(run)
    if cover.found is None or not cover.proved:
        nothing = np.zeros(0, dtype=np.int64)
        return OneFixedPointAnalysis(RunIdentity.of(run), settings, cover, nothing, {})
    sets = cover.found.cover
    centres, reach = sets.centres, extents(sets, np.arange(sets.set_count))
    groups = group_alike(loop, centres, settings.spread)
    pairs = [(group, token) for group in range(groups.max() + 1) for token in range(sets.latents.shape[1])]
    weights = RunIdentity.of(run).weights_sha256
    belongs_to: dict[str, str | float] = {
        "weights_sha256": weights,
        "cover_sha256": arrays_sha256(centres, reach),
        "spread": settings.spread,
        "limit": settings.limit,
    }
    parts = KeptParts(folder, belongs_to, pairs)
    work = [
        (
            pair,
            run.path,
            weights,
            Ball(centres[own], reach[own]),
            sets.latents[own, pair[1]],
            settings.limit,
        )
        for pair in pairs
        if pair not in parts.found
        for own in [np.flatnonzero(groups == pair[0])]
    ]
    bar = tqdm(total=len(pairs), initial=len(parts.found), desc="pairs of a group and a token", leave=False)
    with bar:
        for pair, part in _all(work, settings.processes):
            parts.keep(pair, part)
            bar.update()
    return OneFixedPointAnalysis(RunIdentity.of(run), settings, cover, groups, parts.found)


def group_alike(loop: EnclosedClosedLoop, states: Array, spread: float) -> NDArray[np.int64]:
    """Return of each state the number of a group of those that a model's block reads nearly alike.

    A state joins the first group whose first state differs from it by less than the spread in every number
    that Φ reads of it: what the window adds to the convolved channels, and h.

    Args:
        loop: the model.
        states: as `flatten_state` orders them, ``[S, n]``.
        spread: of a group.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> loop = EnclosedClosedLoop(load_run("parity-small").model)
        >>> states = np.zeros((3, loop.state_size))
        >>> states[2, 0] = 1.0
        >>> group_alike(loop, states, 0.01).tolist()
        [0, 0, 1]
    """
    taps = loop.cell.earlier_taps.midpoint
    window = states[:, : loop.window_size].reshape(len(states), *taps.shape)
    read = np.column_stack([(window * taps).sum(-1), states[:, loop.window_size :]])
    firsts: list[Array] = []
    groups = np.zeros(len(states), dtype=np.int64)
    for index, row in enumerate(read):
        alike = (k for k, first in enumerate(firsts) if np.abs(row - first).max() < spread)
        groups[index] = next(alike, len(firsts))
        if groups[index] == len(firsts):
            firsts.append(row)
    return groups


Work = tuple[Pair, Path, str, Ball, Array, int]


def _all(work: list[Work], processes: int) -> Iterator[tuple[Pair, OneFixedPoint]]:
    """What is proved of each pair, as it comes."""
    if processes == 1:
        yield from map(_prove, work)
        return
    with ProcessPoolExecutor(processes) as pool:
        for future in as_completed([pool.submit(_prove, pair) for pair in work]):
            yield future.result()


def _prove(work: Work) -> tuple[Pair, OneFixedPoint]:
    pair, path, weights, states, latents, limit = work
    run = load_run(path, allow_code=True)  # as the process that asks has loaded it
    if RunIdentity.of(run).weights_sha256 != weights:
        raise InputError(
            f"{path} holds other weights than the run that is asked about; save them, and load it"
        )
    model = in_double_precision(as_implicit(run))
    return pair, prove_one_fixed_point(model, pair[1], states, latents, limit)
