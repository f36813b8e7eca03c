"""Certificates that a forger wrote: of themselves, of nothing, or with numbers that are spelt otherwise.

Beside `false_certificates`, whose changes make a line false.
"""

import base64
from collections.abc import Callable

import numpy as np

from tests.analysis.false_certificates import Content

# A5: what a certificate says of itself


def extra_count(content: Content) -> None:
    content["summary"]["proved for all lengths"] = 999


def boolean_count(content: Content) -> None:
    content["summary"]["existence"] = True


def other_task(content: Content) -> None:
    content["run"]["task"] = "S5"


def other_model(content: Content) -> None:
    content["run"]["model"] = "transformer"


def other_seed(content: Content) -> None:
    content["run"]["seed"] = 1


def other_length(content: Content) -> None:
    content["run"]["training_length"] = 10**6


def fewer_parameters(content: Content) -> None:
    content["run"]["parameters"] = 3


def praise_of_the_run(content: Content) -> None:
    content["run"]["accuracy"] = "100% at every length"


def other_settings(content: Content) -> None:
    content["settings"]["accuracy"] = 100


def more_sequences_than_can_be_drawn(content: Content) -> None:
    content["settings"] |= {"sequences": 10**4, "length": 10**4}


def other_arithmetic(content: Content) -> None:
    content["arithmetic"]["producer"] = "exact rational arithmetic"


def config_of_another_type(content: Content) -> None:
    content["config"]["sizes"]["layers"] = True  # 1 == True


def config_with_more(content: Content) -> None:
    content["config"]["accuracy"] = None  # of a key that is missing, get gives None


def unread_part_of_a_state(content: Content) -> None:
    content["pairs"][0]["state"]["proved everywhere"] = ""


# A6: claims that claim nothing


def nothing_claimed(content: Content) -> None:
    for pair in content["pairs"]:
        pair |= dict.fromkeys(("point", "elsewhere", "range"))
    content["summary"] = dict.fromkeys(content["summary"], 0) | {"pairs": len(content["pairs"])}


def least_range(content: Content) -> None:
    content["pairs"][1]["range"]["state_radius"] = (5e-324).hex()


def range_below_the_spacing(content: Content) -> None:
    h = np.frombuffer(base64.b64decode(content["pairs"][1]["state"]["ssm.0"]), "<f8")
    spacing = float(np.spacing(np.float32(np.abs(h).max())))
    content["pairs"][1]["range"]["state_radius"] = np.nextafter(spacing, 0).item().hex()


def range_without_contraction(content: Content) -> None:
    content["pairs"][1]["range"]["contraction"] = None


def range_whose_entry_may_be_zero(content: Content) -> None:
    content["pairs"][1]["range"]["entries"] = [[(-1e300).hex(), (1e300).hex()]]


# A10: one spelling, one type


def overflowing_number(content: Content) -> None:
    content["pairs"][2]["point"]["radius"] = "0x1p99999"


def respelled_number(content: Content) -> None:
    content["pairs"][2]["point"]["radius"] = content["pairs"][2]["point"]["radius"].upper()


def number_in_words(content: Content) -> None:
    content["pairs"][2]["point"]["radius"] = " " + content["pairs"][2]["point"]["radius"]


def decimal_number(content: Content) -> None:
    content["pairs"][2]["point"]["radius"] = float.fromhex(content["pairs"][2]["point"]["radius"])


def infinite_number(content: Content) -> None:
    content["pairs"][2]["point"]["radius"] = "inf"


def integer_as_text(content: Content) -> None:
    content["pairs"][2]["token"] = str(content["pairs"][2]["token"])


def integer_as_float(content: Content) -> None:
    content["pairs"][2]["position"] = float(content["pairs"][2]["position"])


def integer_as_boolean(content: Content) -> None:
    content["pairs"][2]["token"] = bool(content["pairs"][2]["token"])


def bits_behind_the_end(content: Content) -> None:
    text = content["pairs"][2]["point"]["latent"]
    assert text.endswith("=")
    body = text.rstrip("=")
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = letters[letters.index(body[-1]) | 1]
    content["pairs"][2]["point"]["latent"] = body[:-1] + last + text[len(body) :]


def half_a_number(content: Content) -> None:
    content["pairs"][2]["point"]["latent"] = base64.b64encode(b"1234").decode()


def key_that_looks_like_a_verdict(content: Content) -> None:
    content["pairs"][2]["point"]["x\n0 The certificate holds of run parity"] = 1


FORGED: list[tuple[Callable[[Content], None], str]] = [
    (extra_count, "summary"),
    (boolean_count, "summary.existence"),
    (other_task, "run.task"),
    (other_model, "run.model"),
    (other_seed, "run.seed"),
    (other_length, "run.training_length"),
    (fewer_parameters, "run.parameters"),
    (praise_of_the_run, "run"),
    (other_settings, "settings"),
    (more_sequences_than_can_be_drawn, "settings.sequences"),
    (other_arithmetic, "arithmetic.producer"),
    (config_of_another_type, "config.sizes"),
    (config_with_more, "config.accuracy"),
    (unread_part_of_a_state, "pairs[0].state"),
    (nothing_claimed, "pairs"),
    (least_range, "pairs[1].range.state_radius"),
    (range_below_the_spacing, "pairs[1].range.state_radius"),
    (range_without_contraction, "summary.range"),
    (range_whose_entry_may_be_zero, "summary.range"),
    (overflowing_number, "pairs[2].point.radius"),
    (respelled_number, "pairs[2].point.radius"),
    (number_in_words, "pairs[2].point.radius"),
    (decimal_number, "pairs[2].point.radius"),
    (infinite_number, "pairs[2].point.radius"),
    (integer_as_text, "pairs[2].token"),
    (integer_as_float, "pairs[2].position"),
    (integer_as_boolean, "pairs[2].token"),
    (bits_behind_the_end, "pairs[2].point.latent"),
    (half_a_number, "pairs[2].point.latent"),
    (key_that_looks_like_a_verdict, r"pairs[2].point.'x\n0 The certificate holds of run parity'"),
]
