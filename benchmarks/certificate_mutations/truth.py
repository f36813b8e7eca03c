"""Is what an accepted mutation says still true? Judged by evaluating the model, not by proving.

Where a claim is about one state it is decided exactly, in mpmath. Where it is about a set of states or a ball
of latents, states and latents of it are sampled, the extreme ones among them: a false claim may pass, a true
one never fails. A line that is not known here makes a mutation undecided, which counts as a failure: whoever
adds a line to a format says here what makes it true.
"""

import itertools
import json
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from mpmath import mp, mpf

from analysis.check_certificate import visited_pairs
from analysis.framework.visited_states import in_double_precision
from benchmarks.certificate_mutations.answers import AnswersJudge
from benchmarks.certificate_mutations.exact_model import ExactModel, State, distance
from benchmarks.certificate_mutations.floating_point import FloatingPointJudge
from benchmarks.certificate_mutations.mutations import (
    Content,
    Path,
    lines_of,
    name_of,
    numbers_of,
    paths_of,
    value_at,
)
from benchmarks.certificate_mutations.targets import Target
from implicit.fixed_point import Stopping
from implicit.modes import Solve

NEAR = 1.1e-7  # largest distance of a listed from a visited state: that of the format, and rounding
SAMPLES = 2
LONGEST_ORBIT, MORE_STEPS, SETTLED = 512, 40, 1e-6
"""Steps that a certificate may ask for, steps after these, and how near the fixed point they have to lead: an
orbit that is within 1e-6 already where it converges has long done so."""
CLAIMED = ("point", "elsewhere", "range")
ABOUT = ("state", "token", "places")
UNVERIFIED = ("unchecked",)  # lines of which the format says that nobody verifies them
HEAD = ("format", "statements", "run", "config", "arithmetic", "automaton")
"""Lines that are true in one form only."""
DROPPED = ("image_radii", "kinds")  # lines that differ where less is claimed than of every start
CLAIMS: tuple[str, ...] = ("kinds", "settings", "summary", "pairs", "levels", "length", "words", "margin")
CLAIMS += ("labels", "targets", "centres", "metrics", "radii", "latents", "latent_radii", "bundle_of")
CLAIMS += ("bundles", "tolerance", "iterations", "latent_error", "step_error", "dtype", "ulps", "norms")
CLAIMS += ("image_radii", "boxes", "rtol")


def differences(one: Content, other: Content) -> list[Path]:
    """Return the paths at which two certificates differ, the seal aside."""
    mine, theirs = (
        {p: v for p in paths_of(c) if not isinstance(v := value_at(c, p), dict | list) or not v}
        for c in (one, other)
    )
    changed = [p for p in {**mine, **theirs} if mine.get(p, ...) is not theirs.get(p, ...)]
    same = [p for p in changed if p in mine and p in theirs and repr(mine[p]) == repr(theirs[p])]
    return [path for path in changed if path not in same and path != ("sha256",)]


class Judge:
    def __init__(self, target: Target) -> None:
        self.target, self.lines = target, lines_of(target.content)
        weights = {name: tensor.numpy() for name, tensor in target.run.model.state_dict().items()}
        self.model = ExactModel(weights, target.run.config.as_json()["sizes"])
        self.generator = np.random.default_rng(0)

    @cached_property
    def answers(self) -> AnswersJudge:
        """The judge of right answers; it remembers the orbits that it followed."""
        return AnswersJudge(self.model, self.target.run)

    @cached_property
    def executed(self) -> FloatingPointJudge:
        """The judge of executed floats; it remembers what it executed."""
        return FloatingPointJudge(self.target.run)

    def fault(self, content: Content) -> str | None:
        """Return what is not true of a certificate, or not known; None if nothing is found."""
        try:
            content = lines_of(content)
        except (KeyError, TypeError) as fault:
            return f"what it says has no meaning ({fault!r})"
        kinds = content["kinds"]
        known = set(self.lines["kinds"])
        if not kinds or not set(kinds) <= known or ("starts" in kinds and "lengths" not in kinds):
            return f"kinds are {kinds}"
        dropped = DROPPED if "starts" in known and "starts" not in kinds else ()
        changed = differences(self.lines, content)
        for path in changed:
            if path[0] in UNVERIFIED or path[0] in dropped:
                continue
            if path[:2] == ("statements", "starts") and dropped:
                continue
            if path[0] in HEAD or path[0] not in CLAIMS or path[0] not in self.lines:
                return f"{'.'.join(name_of(path))} was changed, and is true in one form only or not known"
        lines = {path[0] for path in changed}
        if not lines - set(UNVERIFIED):
            return None
        rules: dict[str, Callable[[Content, list[Path]], Iterable[str]]] = {
            "explicit": self._pairs,
            "pairs": self._pairs,
            "words": lambda content, _: self.answers.words(content),
            "every length": lambda content, _: self.answers.cover(content),
            "image balls": lambda content, _: (
                self.answers.cover(content) if dropped else self.answers.images(content)
            ),
            "executed": lambda content, _: self.executed.boxes(content),
        }
        try:
            return next(iter(rules[self.target.kind](content, changed)), None)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as fault:
            return f"what it says has no meaning ({fault!r})"

    def _pairs(self, content: Content, changed: list[Path]) -> Iterable[str]:
        pairs, run = content["pairs"], self.target.run
        visits = visited_pairs(run.task, content["settings"])
        if len(visits) != len(pairs):
            yield "settings stand for another number of pairs"
        touched = {path[1] for path in changed if path[0] == "pairs" and len(path) > 1}
        moved = {path[1] for path in changed if path[:1] == ("pairs",) and "state" in path}
        originals = {
            json.dumps(pair[name]) for pair in self.lines["pairs"] for name in CLAIMED if name in pair
        }

        def new(pair: Content, name: str, moved_companion: bool = False) -> bool:
            """Return whether a claim is another than in the original, or about another state."""
            about = any(pair[part] not in [other[part] for other in self.lines["pairs"]] for part in ABOUT)
            return bool(pair[name]) and (
                about or moved_companion or everything or json.dumps(pair[name]) not in originals
            )

        everything = "settings" in {path[0] for path in changed} or len(pairs) != len(self.lines["pairs"])
        for number, (pair, visit) in enumerate(zip(pairs, visits, strict=False)):
            companion = (pair.get("elsewhere") or {}).get("pair")
            if not (everything or number in touched or companion in moved):
                continue
            if (pair["sequence"], pair["position"], pair["token"]) != visit[:3]:
                yield f"pairs[{number}] is not where the settings have it"
            parts = {name: numbers_of(text) for name, text in pair["state"].items()}
            for name, part in self._visited(visit.word).items():
                listed = parts[name]
                if np.abs(listed - part).max(initial=0) > NEAR * np.abs(part).max(initial=0):
                    yield f"pairs[{number}].state is another"
            state = self.model.state_of(parts)
            if "decay" in pair:
                yield from self._control(pair, state, number)
                continue
            if new(pair, "point"):
                yield from self._claim(pair, pair["point"], [state], f"pairs[{number}].point")
            if new(pair, "elsewhere", companion in moved):
                h = numbers_of(pairs[companion]["state"]["ssm.0"])
                beside = self.model.state_of({**parts, "ssm.0": h})
                if pairs[companion]["state"]["ssm.0"] == pair["state"]["ssm.0"]:
                    yield f"pairs[{number}].elsewhere is beside the same h"
                yield from self._claim(pair, pair["elsewhere"], [beside], f"pairs[{number}].elsewhere")
            if new(pair, "range"):
                radius = float.fromhex(pair["range"]["state_radius"])
                h = parts["ssm.0"]
                if radius < np.spacing(np.abs(h).max().astype(np.float32)):
                    yield f"pairs[{number}].range is as small as nothing"
                signs = self.generator.choice((-1.0, 1.0), size=(SAMPLES, len(h)))
                box = [
                    self.model.state_of(
                        {**parts, "ssm.0": [mpf(a) + mpf(radius * s) for a, s in zip(h, row, strict=True)]}
                    )
                    for row in signs
                ]
                yield from self._claim(pair, pair["range"], [state, *box], f"pairs[{number}].range")
                ends = [
                    self.model.fixed_point(
                        pair["token"], state, [mpf(float(x)) for x in numbers_of(claim["latent"])]
                    )
                    for claim in (pair["range"], pair["point"])
                ]
                if not distance(*ends) <= mpf(10) ** -30:
                    yield f"pairs[{number}].range is about another fixed point"
        yield from self._summary(content)

    def _visited(self, word: tuple[int, ...]) -> dict[str, Any]:
        """The state after a word in the model itself, in float64."""
        model = in_double_precision(self.target.run.model)
        if not word:
            return {name: part[0].numpy().ravel() for name, part in model.init_state(1).items()}
        solve = Solve("sequential", stopping=Stopping(rtol=1e-13, max_iterations=5000))
        with torch.no_grad():
            state = model.run(torch.tensor([word]), solve=solve).state
        return {name: part[0].numpy().ravel() for name, part in state.items()}

    def _control(self, pair: Content, state: State, number: int) -> Iterable[str]:
        if pair["decay"] is None:
            return
        for decay, (low, high) in zip(self.model.decays(pair["token"], state), pair["decay"][0], strict=True):
            if not float.fromhex(low) <= decay <= float.fromhex(high):
                yield f"pairs[{number}].decay does not hold the decay"

    def _claim(self, pair: Content, claim: Content, states: list[State], line: str) -> Iterable[str]:
        """Yield the faults of a claim by ``theorem1.md`` on a box, at its middle and some of its corners."""
        model, token = self.model, pair["token"]
        latent = [mpf(float(number)) for number in numbers_of(claim["latent"])]
        number = {name: mpf(float.fromhex(claim[name])) for name in ("radius", "error", "singular_value")}
        if not 0 <= number["error"] <= number["radius"]:
            yield f"{line}.error is not between 0 and the radius"
        slopes = []
        for state in states:
            z = model.fixed_point(token, state, latent)
            if not distance(z, latent) <= number["error"]:
                yield f"{line}.error is less than the distance of the fixed point"
            radius = float(number["radius"])
            for corner in self.generator.choice((-1.0, 1.0), size=(1, model.size)):
                start = [a + mpf(radius * s) for a, s in zip(latent, corner, strict=True)]
                slopes.append(model.slopes(token, start, state))
                other = model.fixed_point(token, state, start)
                if distance(other, latent) <= number["radius"] and distance(other, z) > mpf(10) ** -30:
                    yield f"{line}.radius holds two fixed points"
            slopes.append(model.slopes(token, z, state))
            (low, high), place = map(float.fromhex, claim["entries"][0]), pair["places"][0]
            if not low <= model.entry(token, z, state, place) <= high:
                yield f"{line}.entries do not hold the entry"
        one = mp.eye(model.size)
        for A in slopes:
            if not min(mp.svd_r(one - A, compute_uv=False)) >= number["singular_value"]:
                yield f"{line}.singular_value is too large"
        if number["singular_value"] <= 0:
            yield f"{line}.singular_value is not positive"
        if claim["contraction"]:
            power, norm = claim["contraction"]["power"], float.fromhex(claim["contraction"]["norm"])
            steps = [one * (1 - model.damping) + A * model.damping for A in slopes]
            if norm >= 1 or power & (power - 1):
                yield f"{line}.contraction is none"
            for first, second in itertools.islice(itertools.product(steps, repeat=2), 9):
                product = second if power == 1 else first * second
                for _ in range(power.bit_length() - 2):
                    product = product * product
                if mp.mnorm(product, mp.inf) > norm:
                    yield f"{line}.contraction.norm is less than that of a product"
            growth = float.fromhex(claim["contraction"]["growth"])
            if growth < 1 or any(
                mp.mnorm(step**fewer, mp.inf) > growth for step in steps for fewer in range(1, min(power, 5))
            ):
                yield f"{line}.contraction.growth is less than that of fewer steps"
        if claim.get("orbit"):
            yield from self._orbit(token, claim, states[0], latent, f"{line}.orbit")

    def _orbit(self, token: int, claim: Content, state: State, latent: list[Any], line: str) -> Iterable[str]:
        """So many damped steps from zero end within the distance, and so many more at the fixed point."""
        model, z = self.model, [mpf(0)] * self.model.size
        if not claim["contraction"]:
            yield f"{line} has no contraction"
        if claim["orbit"]["iterations"] > LONGEST_ORBIT:
            yield f"{line}.iterations are too many"
            return
        for step in range(claim["orbit"]["iterations"] + MORE_STEPS):
            if step == claim["orbit"]["iterations"] and not distance(z, latent) <= float.fromhex(
                claim["orbit"]["distance"]
            ):
                yield f"{line}.distance is less than that of the orbit"
            image, _ = model.advance(token, z, state)
            z = [a + model.damping * (b - a) for a, b in zip(z, image, strict=True)]
        if not distance(z, model.fixed_point(token, state, latent)) <= SETTLED:
            yield f"{line} does not end at the fixed point"

    def _summary(self, content: Content) -> Iterable[str]:
        """The counts, taken from the JSON."""
        pairs = content["pairs"]
        if "summary" not in content:
            yield "summary is missing"
            return
        if self.target.kind == "explicit":
            counts = {"pairs": len(pairs), "explicit": sum(pair["decay"] is not None for pair in pairs)}
        else:

            def apart(claim: Content) -> bool:
                low, high = map(float.fromhex, claim["entries"][0])
                return low > 0 or high < 0

            def differ(one: Content, other: Content) -> bool:
                (a, b), (c, d) = (map(float.fromhex, claim["entries"][0]) for claim in (one, other))
                return b < c or d < a

            def attracts(claim: Content) -> bool:
                return bool(claim["contraction"] and claim["orbit"])

            points = [pair for pair in pairs if pair["point"]]
            reached = [pair for pair in points if attracts(pair["point"])]
            off = [pair for pair in pairs if pair["places"][0][0] != pair["places"][0][1]]
            counts = {
                "pairs": len(pairs),
                "existence": len(points),
                "invertibility": len(points),
                "contraction": sum(bool(pair["point"]["contraction"]) for pair in points),
                "orbit": len(reached),
                "non_diagonal": sum(apart(pair["point"]) for pair in reached if pair in off),
                "non_linear": sum(
                    attracts(pair["elsewhere"]) and differ(pair["point"], pair["elsewhere"])
                    for pair in reached
                    if pair["elsewhere"]
                ),
                "range": sum(
                    bool(pair["range"]["contraction"]) and apart(pair["range"])
                    for pair in reached
                    if pair in off and pair["range"]
                ),
            }
        if content["summary"] != counts:
            yield "summary is not what the pairs show"
        if not any(count for name, count in counts.items() if name != "pairs"):
            yield "nothing is claimed"
