"""Certificates that a forger wrote: of themselves, of nothing, or with numbers that are spelt otherwise.

Beside `false_certificates`, whose changes make a line false.
"""

import base64

import numpy as np

from tests.analysis.false_certificates import Content
from tests.analysis.lines import Forgery, put

# A5: what a certificate says of itself


# A6: claims that claim nothing


def nothing_claimed(content: Content) -> None:
    for pair in content["pairs"]:
        pair |= dict.fromkeys(("point", "elsewhere", "range"))
    content["summary"] = dict.fromkeys(content["summary"], 0) | {"pairs": len(content["pairs"])}


def range_below_the_spacing(content: Content) -> None:
    h = np.frombuffer(base64.b64decode(content["pairs"][1]["state"]["ssm.0"]), "<f8")
    spacing = float(np.spacing(np.float32(np.abs(h).max())))
    content["pairs"][1]["range"]["state_radius"] = np.nextafter(spacing, 0).item().hex()


# A10: one spelling, one type


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
