"""Forged certificates: what a forger changes, and the line that has to be named."""

import base64
from typing import cast

import numpy as np

from tests.analysis.lines import Content, Forgery, drop, entry, put, scaled


def point(content: Content, pair: int = 2) -> Content:
    """The part of a pair that speaks of its point."""
    return cast(Content, content["pairs"][pair]["point"])


def missing_pair_with_its_count(content: Content) -> None:
    del content["pairs"][1]
    content["summary"] = dict.fromkeys(content["summary"], 3)


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


def orbit_over_a_box(content: Content) -> None:
    content["pairs"][2]["range"]["orbit"] = point(content)["orbit"]


def orbit_and_range_dropped(content: Content) -> None:
    point(content)["orbit"] = None
    content["pairs"][2]["range"] = None


def nothing_claimed(content: Content) -> None:
    for pair in content["pairs"]:
        pair |= dict.fromkeys(("point", "elsewhere", "range"))
    content["summary"] = dict.fromkeys(content["summary"], 0) | {"pairs": len(content["pairs"])}


def range_below_the_spacing(content: Content) -> None:
    h = np.frombuffer(base64.b64decode(content["pairs"][1]["state"]["ssm.0"]), "<f8")
    spacing = float(np.spacing(np.float32(np.abs(h).max())))
    content["pairs"][1]["range"]["state_radius"] = np.nextafter(spacing, 0).item().hex()


def bits_behind_the_end(content: Content) -> None:
    text = content["pairs"][2]["point"]["latent"]
    assert text.endswith("=")
    body = text.rstrip("=")
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = letters[letters.index(body[-1]) | 1]
    content["pairs"][2]["point"]["latent"] = body[:-1] + last + text[len(body) :]


def key_that_looks_like_a_verdict(content: Content) -> None:
    content["pairs"][2]["point"]["x\n0 The certificate holds of run parity"] = 1


FORGED: dict[str, Forgery] = {
    "weights hash": (put("run.weights_sha256", "0" * 64), "run.weights_sha256"),
    "statements": (put("statements.existence", "All states have fixed points."), "statements"),
    "stated precision": (put("arithmetic.precision", 256), "arithmetic.precision"),
    "missing pair": (drop("pairs.1"), "pairs"),
    "missing pair with its count": (missing_pair_with_its_count, "pairs"),
    "repeated pair": (put("pairs", lambda old: [old[0], old[0], *old[2:]]), "pairs[1].sequence"),
    "token": (put("pairs.2.token", lambda old: 1 - old), "pairs[2].token"),
    "position": (put("pairs.2.sequence", 99), "pairs[2].sequence"),
    "state entry": (entry("pairs/2/state/ssm.0", 3, lambda number: number + 0.5), "pairs[2].state"),
    "window entry": (entry("pairs/2/state/conv.0", 3, lambda number: number + 0.5), "pairs[2].state"),
    "missing state": (drop("pairs/2/state/conv.0"), "pairs[2].state"),
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
    "singular value": (scaled("pairs.2.point.singular_value", 1.2), "pairs[2].point.singular_value"),
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
    # a companion's intervals belong to its own h
    "other companion": (put("pairs.2.elsewhere.pair", 2), "pairs[2].elsewhere.pair"),
    "companion out of range": (put("pairs.2.elsewhere.pair", 17), "pairs[2].elsewhere.pair"),
    "grown box": (scaled("pairs.2.range.state_radius", 64), "pairs[2].range.error"),
    # the least there is; the damped step of the pair stretches at first
    "growth": (put("pairs.2.point.contraction.growth", (0.5).hex()), "pairs[2].point.contraction.growth"),
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
    # what is not claimed is not counted; then a box of h is around no fixed point that is reached
    "orbit dropped": (put("pairs.2.point.orbit", None), "pairs[2].range"),
    "orbit and range dropped": (orbit_and_range_dropped, "summary.orbit"),
    "orbit dropped elsewhere": (put("pairs.2.elsewhere.orbit", None), "summary.non_linear"),
    "count": (put("summary.contraction", 5), "summary.contraction"),
    "not finite": (put("pairs.2.point.error", "nan"), "pairs[2].point.error"),
    "damaged array": (put("pairs.2.point.latent", lambda old: "&" + old[1:]), "pairs[2].point.latent"),
    "added field": (put("pairs.2.point.remark", "trust me"), "pairs[2].point.remark"),
    "silly settings": (put("settings.length", 0), "settings.length"),
    "extra count": (put("summary.proved for all lengths", 999), "summary"),
    "boolean count": (put("summary.existence", True), "summary.existence"),
    "other task": (put("run.task", "S5"), "run.task"),
    "praise of the run": (put("run.accuracy", "100% at every length"), "run"),
    "other settings": (put("settings.accuracy", 100), "settings"),
    "more sequences than can be drawn": (
        put("settings", lambda old: old | {"sequences": 10**4, "length": 10**4}),
        "settings.sequences",
    ),
    "other arithmetic": (put("arithmetic.producer", "exact rational arithmetic"), "arithmetic.producer"),
    "config of another type": (put("config.sizes.layers", True), "config.sizes"),
    "config with more": (put("config.accuracy", None), "config.accuracy"),
    "unread part of a state": (put("pairs.0.state.proved everywhere", ""), "pairs[0].state"),
    "nothing claimed": (nothing_claimed, "pairs"),
    "least range": (put("pairs.1.range.state_radius", (5e-324).hex()), "pairs[1].range.state_radius"),
    "range below the spacing": (range_below_the_spacing, "pairs[1].range.state_radius"),
    "range without contraction": (put("pairs.1.range.contraction", None), "summary.range"),
    "range whose entry may be zero": (
        put("pairs.1.range.entries", [[(-1e300).hex(), (1e300).hex()]]),
        "summary.range",
    ),
    "overflowing number": (put("pairs.2.point.radius", "0x1p99999"), "pairs[2].point.radius"),
    "respelled number": (put("pairs.2.point.radius", lambda old: old.upper()), "pairs[2].point.radius"),
    "number in words": (put("pairs.2.point.radius", lambda old: " " + old), "pairs[2].point.radius"),
    "infinite number": (put("pairs.2.point.radius", "inf"), "pairs[2].point.radius"),
    "integer as text": (put("pairs.2.token", lambda old: str(old)), "pairs[2].token"),
    "integer as float": (put("pairs.2.position", lambda old: float(old)), "pairs[2].position"),
    "integer as boolean": (put("pairs.2.token", lambda old: bool(old)), "pairs[2].token"),
    "bits behind the end": (bits_behind_the_end, "pairs[2].point.latent"),
    "half a number": (
        put("pairs.2.point.latent", base64.b64encode(b"1234").decode()),
        "pairs[2].point.latent",
    ),
    "key that looks like a verdict": (
        key_that_looks_like_a_verdict,
        "pairs[2].point.'x\\n0 The certificate holds of run parity'",
    ),
}
