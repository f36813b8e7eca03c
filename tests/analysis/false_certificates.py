"""Changes that make a line of a certificate false, and the line that has to be named."""

import base64
import copy
from collections.abc import MutableMapping
from typing import Any, cast

import numpy as np

from tests.analysis.lines import Forgery, drop, entry, put, scaled

Content = MutableMapping[str, Any]


def _scaled(part: Content, name: str, factor: float) -> None:
    part[name] = (float.fromhex(part[name]) * factor).hex()


def _moved(part: Content, name: str, entry: int, step: float) -> None:
    numbers = np.frombuffer(base64.b64decode(part[name]), "<f8").copy()
    numbers[entry] += step
    part[name] = base64.b64encode(numbers.tobytes()).decode()


def point(content: Content, pair: int = 2) -> Content:
    """The part of a pair that speaks of its point."""
    return cast(Content, content["pairs"][pair]["point"])


def missing_pair_with_its_count(content: Content) -> None:
    del content["pairs"][1]
    content["summary"] = dict.fromkeys(content["summary"], 3)


def repeated_pair(content: Content) -> None:
    content["pairs"][1] = copy.deepcopy(content["pairs"][0])


def token(content: Content) -> None:
    content["pairs"][2]["token"] = 1 - content["pairs"][2]["token"]


def missing_state(content: Content) -> None:
    del content["pairs"][2]["state"]["conv.0"]


def singular_value(content: Content) -> None:
    _scaled(point(content), "singular_value", 1.2)


def entry_interval(content: Content) -> None:
    lower, upper = map(float.fromhex, point(content)["entries"][0])
    width = upper - lower
    point(content)["entries"][0] = [(lower + width).hex(), (upper + width).hex()]


def entry_sign(content: Content) -> None:
    lower, upper = map(float.fromhex, point(content)["entries"][0])
    point(content)["entries"][0] = [(-upper).hex(), (-lower).hex()]


def diagonal_entry(content: Content) -> None:
    row, _ = content["pairs"][2]["places"][0]
    content["pairs"][2]["places"][0] = [row, row]


def other_companion(content: Content) -> None:
    # A companion's intervals belong to its own h.
    elsewhere = content["pairs"][2]["elsewhere"]
    elsewhere["pair"] = 2


def growth(content: Content) -> None:
    # the least there is; the damped step of the pair stretches at first
    point(content)["contraction"]["growth"] = (0.5).hex()


def orbit_over_a_box(content: Content) -> None:
    content["pairs"][2]["range"]["orbit"] = point(content)["orbit"]


def orbit_dropped(content: Content) -> None:
    # what is not claimed is not counted
    point(content)["orbit"] = None


def orbit_and_range_dropped(content: Content) -> None:
    orbit_dropped(content)
    content["pairs"][2]["range"] = None


FALSE: dict[str, Forgery] = {
    "weights hash": (put("run.weights_sha256", "0" * 64), "run.weights_sha256"),
    "config": (put("config.sizes.damping", 0.5), "config.sizes"),
    "statements": (put("statements.existence", "All states have fixed points."), "statements"),
    "stated precision": (put("arithmetic.precision", 256), "arithmetic.precision"),
    "missing pair": (drop("pairs.1"), "pairs"),
    "missing pair with its count": (missing_pair_with_its_count, "pairs"),
    "repeated pair": (repeated_pair, "pairs[1].sequence"),
    "token": (token, "pairs[2].token"),
    "position": (put("pairs.2.sequence", 99), "pairs[2].sequence"),
    "state entry": (entry("pairs/2/state/ssm.0", 3, lambda number: number + 0.5), "pairs[2].state"),
    "window entry": (entry("pairs/2/state/conv.0", 3, lambda number: number + 0.5), "pairs[2].state"),
    "missing state": (missing_state, "pairs[2].state"),
    "latent centre": (
        entry("pairs.2.point.latent", 1, lambda number: number + 1e-08),
        "pairs[2].point.error",
    ),
    "short latent": (
        put("pairs.2.point.latent", base64.b64encode(np.zeros(3).tobytes()).decode()),
        "pairs[2].point.latent",
    ),
    "shrunk radius": (scaled("pairs.2.point.radius", 1e-09), "pairs[2].point.error"),
    "grown radius": (scaled("pairs.2.point.radius", 2.0**28), "pairs[2].point.radius"),
    "shrunk error": (scaled("pairs.2.point.error", 1e-06), "pairs[2].point.error"),
    "singular value": (singular_value, "pairs[2].point.singular_value"),
    "negative singular value": (
        scaled("pairs.2.point.singular_value", -1.0),
        "pairs[2].point.singular_value",
    ),
    "contraction norm": (scaled("pairs.2.point.contraction.norm", 0.9), "pairs[2].point.contraction.norm"),
    "contraction power": (put("pairs.2.point.contraction.power", 3), "pairs[2].point.contraction.power"),
    "expanding norm": (put("pairs.2.point.contraction.norm", (1.5).hex()), "pairs[2].point.contraction.norm"),
    "entry interval": (entry_interval, "pairs[2].point.entries[0]"),
    "entry sign": (entry_sign, "pairs[2].point.entries[0]"),
    "diagonal entry": (diagonal_entry, "pairs[2].point.entries[0]"),
    "entry outside": (put("pairs.2.places.0", [10**6, 0]), "pairs[2].places[0]"),
    "other companion": (other_companion, "pairs[2].elsewhere.pair"),
    "companion out of range": (put("pairs.2.elsewhere.pair", 17), "pairs[2].elsewhere.pair"),
    "grown box": (scaled("pairs.2.range.state_radius", 64), "pairs[2].range.error"),
    "growth": (growth, "pairs[2].point.contraction.growth"),
    "orbit too short": (
        put("pairs.2.point.orbit.iterations", lambda old: old - 2),
        "pairs[2].point.orbit.distance",
    ),
    "orbit nearer": (scaled("pairs.2.point.orbit.distance", 0.5), "pairs[2].point.orbit.distance"),
    "orbit outside": (scaled("pairs.2.point.orbit.distance", 100.0), "pairs[2].point.orbit.distance"),
    "orbit at once": (
        put("pairs.2.point.orbit", {"iterations": 0, "distance": (0.0).hex()}),
        "pairs[2].point.orbit.distance",
    ),
    "orbit without end": (put("pairs.2.point.orbit.iterations", 10**9), "pairs[2].point.orbit.iterations"),
    "orbit without contraction": (put("pairs.2.point.contraction", None), "pairs[2].point.orbit"),
    "orbit of the companion": (
        put("pairs.2.elsewhere.orbit.iterations", lambda old: old - 2),
        "pairs[2].elsewhere.orbit.distance",
    ),
    "orbit over a box": (orbit_over_a_box, "pairs[2].range.orbit"),
    "orbit dropped": (orbit_dropped, "pairs[2].range"),  # a box of h around no fixed point that is reached
    "orbit and range dropped": (orbit_and_range_dropped, "summary.orbit"),
    "orbit dropped elsewhere": (put("pairs.2.elsewhere.orbit", None), "summary.non_linear"),
    "count": (put("summary.contraction", 5), "summary.contraction"),
    "not finite": (put("pairs.2.point.error", "nan"), "pairs[2].point.error"),
    "decimal number": (put("pairs.2.point.error", 0.001), "pairs[2].point.error"),
    "damaged array": (put("pairs.2.point.latent", lambda old: "&" + old[1:]), "pairs[2].point.latent"),
    "added field": (put("pairs.2.point.remark", "trust me"), "pairs[2].point.remark"),
    "no pairs": (put("pairs", None), "pairs"),
    "silly settings": (put("settings.length", 0), "settings.length"),
}
