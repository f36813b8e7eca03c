"""Changes that make a line of a certificate false, and the line that has to be named."""

import base64
import copy
from collections.abc import Callable, MutableMapping
from typing import Any, cast

import numpy as np

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


def weights_hash(content: Content) -> None:
    content["run"]["weights_sha256"] = "0" * 64


def config(content: Content) -> None:
    content["config"]["sizes"]["damping"] = 0.5


def statements(content: Content) -> None:
    content["statements"]["existence"] = "All states have fixed points."


def stated_precision(content: Content) -> None:
    content["arithmetic"]["precision"] = 256


def missing_pair(content: Content) -> None:
    del content["pairs"][1]


def missing_pair_with_its_count(content: Content) -> None:
    del content["pairs"][1]
    content["summary"] = dict.fromkeys(content["summary"], 3)


def repeated_pair(content: Content) -> None:
    content["pairs"][1] = copy.deepcopy(content["pairs"][0])


def token(content: Content) -> None:
    content["pairs"][2]["token"] = 1 - content["pairs"][2]["token"]


def position(content: Content) -> None:
    content["pairs"][2]["sequence"] = 99


def state_entry(content: Content) -> None:
    _moved(content["pairs"][2]["state"], "ssm.0", 3, 0.5)


def window_entry(content: Content) -> None:
    _moved(content["pairs"][2]["state"], "conv.0", 3, 0.5)


def missing_state(content: Content) -> None:
    del content["pairs"][2]["state"]["conv.0"]


def latent_centre(content: Content) -> None:
    _moved(point(content), "latent", 1, 1e-8)


def short_latent(content: Content) -> None:
    point(content)["latent"] = base64.b64encode(np.zeros(3).tobytes()).decode()


def shrunk_radius(content: Content) -> None:
    _scaled(point(content), "radius", 1e-9)


def grown_radius(content: Content) -> None:
    _scaled(point(content), "radius", 2.0**28)


def shrunk_error(content: Content) -> None:
    _scaled(point(content), "error", 1e-6)


def singular_value(content: Content) -> None:
    _scaled(point(content), "singular_value", 1.2)


def negative_singular_value(content: Content) -> None:
    _scaled(point(content), "singular_value", -1.0)


def contraction_norm(content: Content) -> None:
    _scaled(point(content)["contraction"], "norm", 0.9)


def contraction_power(content: Content) -> None:
    content["pairs"][2]["point"]["contraction"]["power"] = 3


def expanding_norm(content: Content) -> None:
    point(content)["contraction"]["norm"] = (1.5).hex()


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


def entry_outside(content: Content) -> None:
    content["pairs"][2]["places"][0] = [10**6, 0]


def other_companion(content: Content) -> None:
    # A companion's intervals belong to its own h.
    elsewhere = content["pairs"][2]["elsewhere"]
    elsewhere["pair"] = 2


def companion_out_of_range(content: Content) -> None:
    content["pairs"][2]["elsewhere"]["pair"] = 17


def grown_box(content: Content) -> None:
    _scaled(content["pairs"][2]["range"], "state_radius", 64)


def growth(content: Content) -> None:
    # the least there is; the damped step of the pair stretches at first
    point(content)["contraction"]["growth"] = (0.5).hex()


def orbit_too_short(content: Content) -> None:
    point(content)["orbit"]["iterations"] -= 2


def orbit_nearer(content: Content) -> None:
    _scaled(point(content)["orbit"], "distance", 0.5)


def orbit_outside(content: Content) -> None:
    _scaled(point(content)["orbit"], "distance", 100.0)


def orbit_at_once(content: Content) -> None:
    # from another start, in other words: at the fixed point itself
    point(content)["orbit"] = {"iterations": 0, "distance": (0.0).hex()}


def orbit_without_end(content: Content) -> None:
    point(content)["orbit"]["iterations"] = 10**9


def orbit_without_contraction(content: Content) -> None:
    point(content)["contraction"] = None


def orbit_of_the_companion(content: Content) -> None:
    content["pairs"][2]["elsewhere"]["orbit"]["iterations"] -= 2


def orbit_over_a_box(content: Content) -> None:
    content["pairs"][2]["range"]["orbit"] = point(content)["orbit"]


def orbit_dropped(content: Content) -> None:
    # what is not claimed is not counted
    point(content)["orbit"] = None


def orbit_and_range_dropped(content: Content) -> None:
    orbit_dropped(content)
    content["pairs"][2]["range"] = None


def orbit_dropped_elsewhere(content: Content) -> None:
    content["pairs"][2]["elsewhere"]["orbit"] = None


def count(content: Content) -> None:
    content["summary"]["contraction"] = 5


def not_finite(content: Content) -> None:
    point(content)["error"] = "nan"


def decimal_number(content: Content) -> None:
    point(content)["error"] = 0.001


def damaged_array(content: Content) -> None:
    point(content)["latent"] = "&" + point(content)["latent"][1:]


def added_field(content: Content) -> None:
    point(content)["remark"] = "trust me"


def no_pairs(content: Content) -> None:
    content["pairs"] = None


def silly_settings(content: Content) -> None:
    content["settings"]["length"] = 0


FALSE: list[tuple[Callable[[Content], None], str]] = [
    (weights_hash, "run.weights_sha256"),
    (config, "config.sizes"),
    (statements, "statements"),
    (stated_precision, "arithmetic.precision"),
    (missing_pair, "pairs"),
    (missing_pair_with_its_count, "pairs"),
    (repeated_pair, "pairs[1].sequence"),
    (token, "pairs[2].token"),
    (position, "pairs[2].sequence"),
    (state_entry, "pairs[2].state"),
    (window_entry, "pairs[2].state"),
    (missing_state, "pairs[2].state"),
    (latent_centre, "pairs[2].point.error"),
    (short_latent, "pairs[2].point.latent"),
    (shrunk_radius, "pairs[2].point.error"),
    (grown_radius, "pairs[2].point.radius"),
    (shrunk_error, "pairs[2].point.error"),
    (singular_value, "pairs[2].point.singular_value"),
    (negative_singular_value, "pairs[2].point.singular_value"),
    (contraction_norm, "pairs[2].point.contraction.norm"),
    (contraction_power, "pairs[2].point.contraction.power"),
    (expanding_norm, "pairs[2].point.contraction.norm"),
    (entry_interval, "pairs[2].point.entries[0]"),
    (entry_sign, "pairs[2].point.entries[0]"),
    (diagonal_entry, "pairs[2].point.entries[0]"),
    (entry_outside, "pairs[2].places[0]"),
    (other_companion, "pairs[2].elsewhere.pair"),
    (companion_out_of_range, "pairs[2].elsewhere.pair"),
    (grown_box, "pairs[2].range.error"),
    (growth, "pairs[2].point.contraction.growth"),
    (orbit_too_short, "pairs[2].point.orbit.distance"),
    (orbit_nearer, "pairs[2].point.orbit.distance"),
    (orbit_outside, "pairs[2].point.orbit.distance"),
    (orbit_at_once, "pairs[2].point.orbit.distance"),
    (orbit_without_end, "pairs[2].point.orbit.iterations"),
    (orbit_without_contraction, "pairs[2].point.orbit"),
    (orbit_of_the_companion, "pairs[2].elsewhere.orbit.distance"),
    (orbit_over_a_box, "pairs[2].range.orbit"),
    (orbit_dropped, "pairs[2].range"),  # a box of h around no fixed point that is reached
    (orbit_and_range_dropped, "summary.orbit"),
    (orbit_dropped_elsewhere, "summary.non_linear"),
    (count, "summary.contraction"),
    (not_finite, "pairs[2].point.error"),
    (decimal_number, "pairs[2].point.error"),
    (damaged_array, "pairs[2].point.latent"),
    (added_field, "pairs[2].point.remark"),
    (no_pairs, "pairs"),
    (silly_settings, "settings.length"),
]
