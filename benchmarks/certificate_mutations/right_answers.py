"""Is what a certificate of right answers says true? Its words are read, and some states of its sets.

Every token is read twice: with the fixed point, which is where the iteration ends for rtol = 0 and no limit,
and with the latent of the inexact program that stops first at ``tolerance``, whose next state is off too.
"""

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
from mpmath import mp, mpf

from automata.tasks.word_problem import WordProblem
from benchmarks.certificate_mutations.exact_model import ExactModel, State, Vector, distance, entries_of
from benchmarks.certificate_mutations.exact_orbits import (
    INSIDE,
    SAMPLES,
    Array,
    IterationJudge,
    length,
    upper_triangular,
)
from benchmarks.certificate_mutations.mutations import Content, numbers_of
from implicit.runs.loading import Run

LEVEL = {"latents", "latent_radii", "states", "state_radii", "margins", "bundle_of"}


class AnswersJudge:
    """Says what is not true of certificates of all words, of every length, and of every start."""

    def __init__(self, model: ExactModel, run: Run) -> None:
        assert isinstance(run.task, WordProblem)
        self.model, self.task = model, run.task
        self.iteration = IterationJudge(model, int(run.config.as_json()["sizes"]["max_iterations"]))
        self.size = self.iteration.size

    def words(self, content: Content) -> Iterable[str]:
        """Return what is not true of a certificate of all words."""
        yield from self.iteration.faults(content)
        tokens, task = range(self.task.vocabulary_size), self.task
        if any(set(level) != LEVEL for level in content["levels"]):
            yield "levels hold lines that are not known"
        levels = [
            {name: numbers_of(text) for name, text in level.items() if name != "bundle_of"}
            for level in content["levels"]
        ]
        counts = len(levels), sum(len(tokens) ** (n + 1) for n in range(len(levels)))
        if (content["length"], content["words"]) != counts:
            yield "length or words are not those of the levels"
        if float.fromhex(content["margin"]) != min(float(level["margins"].min()) for level in levels):
            yield "margin is not the least"
        zero = self.model.zero_state()
        read: dict[tuple[int, ...], tuple[int, list[State]]] = {(): (task.initial_state, [zero, zero])}
        balls: dict[tuple[int, ...], tuple[Vector, float]] = {(): (entries_of(zero), 0.0)}
        for number, level in enumerate(levels):
            for row, word in enumerate(itertools.product(tokens, repeat=number + 1)):
                line, token = f"levels[{number}] word {word}", word[-1]
                before, states = read[word[:-1]]
                label = int(task.table[before, token])
                centre = _exact(level["states"].reshape(-1, self.size)[row])
                balls[word] = centre, float(level["state_radii"][row])
                latent = _exact(level["latents"].reshape(-1, self.model.size)[row])
                steps = [
                    self._step(content, token, state, latent, inexact)
                    for state, inexact in zip(states, (False, True), strict=True)
                ]
                read[word] = label, [following for _, _, following in steps]
                for fixed, z, following in steps:
                    if not distance(fixed, latent) <= float(level["latent_radii"][row]):
                        yield f"{line}: latent_radii"
                    if not length(_minus(entries_of(following), centre)) <= balls[word][1]:
                        yield f"{line}: state_radii"
                    if not 0 < float(level["margins"][row]) <= self._margin(z, label):
                        yield f"{line}: margins"
                    around, radius = balls[word[:-1]]
                    reach, bundle = [mpf(radius)] * self.size, content["levels"][number]["bundle_of"][row]
                    for fault in self.iteration.member_faults(content, bundle, token, around, reach, fixed):
                        yield f"{line}: {fault}"

    def cover(self, content: Content) -> Iterable[str]:
        """Return what is not true of a certificate of every length."""
        yield from self.iteration.faults(content)
        labels, targets, margin = content["labels"], content["targets"], float.fromhex(content["margin"])
        count, tokens = len(labels), self.task.vocabulary_size
        arrays = {
            name: numbers_of(content[name])
            for name in ("centres", "metrics", "radii", "latents", "latent_radii")
        }
        centres = [_exact(row) for row in arrays["centres"].reshape(count, self.size)]
        latents = arrays["latents"].reshape(count, tokens, self.model.size)
        latent_radii, radii = arrays["latent_radii"].reshape(count, tokens), arrays["radii"].tolist()
        metrics = [upper_triangular(_exact(row), self.size) for row in arrays["metrics"].reshape(count, -1)]

        def reach(index: int, entries: Vector) -> Any:
            return mp.norm(metrics[index] * mp.matrix(_minus(entries, centres[index])))

        if labels[0] != self.task.initial_state or reach(0, [mpf(0)] * self.size) > radii[0]:
            yield "the zero state is not in the first set"
        if min(radii) <= 0 or margin <= 0:
            yield "a radius or the margin is not positive"
        for index in range(count):
            axes = _inverse(metrics[index]) * radii[index]
            extents = [length(list(axes[row, :])) for row in range(self.size)]
            for token, unit in itertools.product(range(tokens), self._units(index)):
                target, label = targets[index][token], int(self.task.table[labels[index], token])
                if labels[target] != label:
                    yield f"targets[{index}][{token}] is a set of another label"
                entries = [a + b for a, b in zip(centres[index], axes * unit * INSIDE, strict=True)]
                state = self.iteration.state_of(entries)
                latent = _exact(latents[index, token])
                for inexact in (False, True):
                    fixed, z, following = self._step(content, token, state, latent, inexact)
                    if not distance(fixed, latent) <= latent_radii[index, token]:
                        yield f"latent_radii[{index}][{token}]"
                    if not reach(target, entries_of(following)) <= radii[target]:
                        yield f"targets[{index}][{token}]: a state leads out of it"
                    if not margin <= self._margin(z, label):
                        yield "margin is larger than that of a state"
                    bundle = content["bundle_of"][index][token]
                    for fault in self.iteration.member_faults(
                        content, bundle, token, centres[index], extents, fixed
                    ):
                        yield f"set {index}, token {token}: {fault}"

    def images(self, content: Content) -> Iterable[str]:
        """Return what is not true of a certificate of every length and start by image balls."""
        yield from self.cover(content)
        weight, d = self.model.weights["latent_norm.weight"], self.model.size
        counts = len(content["labels"]), self.task.vocabulary_size
        names = ("centres", "metrics", "latents", "image_radii")
        rows = {name: numbers_of(content[name]).reshape(counts[0], -1) for name in names}
        latents = rows["latents"].reshape(*counts, d)
        scale = mp.diag(weight)

        def apart(one: Vector, other: Vector) -> Any:
            return length([a / w for a, w in zip(_minus(one, other), weight, strict=True)])

        for index, token in itertools.product(*map(range, counts)):
            axes = _inverse(upper_triangular(_exact(rows["metrics"][index]), self.size))
            axes *= numbers_of(content["radii"]).tolist()[index]
            middle, centre = _exact(rows["centres"][index]), _exact(latents[index, token])
            radius = mpf(float(rows["image_radii"][index, token]))
            line = f"image_radii[{index * counts[1] + token}]"
            for unit in self._units(index):
                entries = [a + b for a, b in zip(middle, axes * unit * INSIDE, strict=True)]
                state = self.iteration.state_of(entries)
                for z in self._latents(weight):
                    if not apart(self.model.advance(token, z, state)[0], centre) <= radius:
                        yield f"{line}: an image is not within it in set {index}, token {token}"
                around = self._latents([radius / mp.sqrt(d) * w for w in weight])
                inside = [[c + e for c, e in zip(centre, y, strict=True)] for y in around]
                zero = [mpf(0)] * d  # where the norm before the block is steepest
                for z in [*inside, *([zero] if apart(zero, centre) <= radius else [])]:
                    slopes = scale**-1 * self.model.slopes(token, z, state) * scale
                    if not max(mp.svd(slopes, compute_uv=False)) < 1:
                        yield f"{line}: no contraction on it in set {index}, token {token}"

    def _latents(self, weight: Vector) -> list[Vector]:
        """Some of K, on its edge and near zero, the same at every call."""
        y = np.random.default_rng(0).normal(size=(2 * SAMPLES, self.model.size))
        y *= np.sqrt(self.model.size) / np.linalg.norm(y, axis=1, keepdims=True)
        y *= np.tile([float(INSIDE), 1e-3], SAMPLES)[:, None]
        return [[w * e for w, e in zip(weight, _exact(row), strict=True)] for row in y]

    def _units(self, index: int) -> list[Any]:
        """The centre of a set and some of its edge, the same at every call."""
        directions = np.random.default_rng(index).normal(size=(SAMPLES, self.size))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        return [mp.matrix(row) for row in [[0.0] * self.size, *directions.tolist()]]

    def _step(
        self, content: Content, token: int, state: State, near: Vector, inexact: bool
    ) -> tuple[Vector, Vector, State]:
        """The fixed point, the latent at which a program stops, and its next state."""
        z = self.iteration.stopped(content, token, state) if inexact else near
        fixed = self.iteration.fixed_point(token, state, z)
        z = z if inexact else fixed
        _, following = self.model.advance(token, z, state)
        if inexact:
            push = mpf(float.fromhex(content["step_error"])) / mp.sqrt(self.size) * INSIDE
            following = self.iteration.state_of([entry + push for entry in entries_of(following)])
        return fixed, z, following

    def _margin(self, z: Vector, label: int) -> Any:
        logits = self.model.logits(z)
        return logits[label] - max(logit for other, logit in enumerate(logits) if other != label)


def _inverse(upper: Any) -> Any:
    """By back substitution, which does not take very different rows for a singular matrix."""
    columns = [mp.U_solve(upper.copy(), list(unit)) for unit in np.eye(upper.rows)]
    return mp.matrix([list(column) for column in columns]).T


def _exact(row: Array) -> Vector:
    return [mpf(float(number)) for number in row]


def _minus(one: Vector, other: Vector) -> Vector:
    return [a - b for a, b in zip(one, other, strict=True)]
