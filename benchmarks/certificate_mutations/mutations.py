"""Changes of a certificate that a forger who knows its format would try, and the seal that goes with them."""

import base64
import copy
import json
import math
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.certificates.certificate import RefusedError, parse_certificate, seal
from analysis.certificates.claims.theorem1 import VisitedPairs, summarise

Content = dict[str, Any]
Path = tuple[str | int, ...]
HEX = re.compile(r"-?0x[01]\.[0-9a-f]{13}p[+-][0-9]+|-?0x0\.0p\+0")
TWICE = "\x00twice\x00"  # before a key that is to stand twice in an object, until the text is written
HEAD = ("format", "run", "config", "arithmetic", "automaton", "unchecked", "sha256")
OF_HEAD = ("kind", "statements", "settings")  # lines of a claim that are changed as often as those
SHARE_OF_HEAD = 0.15  # share of changes that are made there, where there are more lines than claims
SHARE_OF_SUMMARIES = 0.5  # share of changes to which the counts are made to fit, where there are some


def mutated(content: Content, generator: random.Random) -> str:
    changed, before = copy.deepcopy(content), json.dumps(content)
    while json.dumps(changed) == before:
        for _ in range(generator.choice((1, 1, 1, 2, 3))):
            _change_somewhere(changed, generator)
    if generator.random() < SHARE_OF_SUMMARIES:
        _fit_summary(changed)
    if "sha256" in changed:
        changed["sha256"] = seal(changed)
    return json.dumps(changed).replace(json.dumps(TWICE)[1:-1], "")


def paths_of(content: Any) -> list[Path]:
    """Return the paths of all values inside a JSON value, containers included."""
    found: list[Path] = []
    items: list[tuple[Path, Any]] = [((), content)]
    while items:
        path, value = items.pop(0)
        inner = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        for key, part in inner:
            found.append((*path, key))
            items.append(((*path, key), part))
    return found


def name_of(path: Path) -> tuple[str, ...]:
    return tuple(part for part in path if isinstance(part, str))


def value_at(content: Any, path: Path) -> Any:
    for part in path:
        content = content[part]
    return content


def array_of(text: Any) -> NDArray[np.float64] | None:
    if not isinstance(text, str) or len(text) < 12 or len(text) % 4:
        return None
    try:
        return np.frombuffer(base64.b64decode(text, validate=True), "<f8").copy()
    except ValueError:
        return None


def numbers_of(text: Any) -> NDArray[np.float64]:
    numbers = array_of(text)
    if numbers is None:
        raise ValueError("is no array")
    return numbers


def _change_somewhere(content: Content, generator: random.Random) -> None:
    """One operator at one place; kinds of lines are drawn evenly, so that long lists do not take all."""
    by_name: dict[tuple[str, ...], list[Path]] = {}
    for path in paths_of(content):
        by_name.setdefault(name_of(path), []).append(path)
    head = generator.random() < SHARE_OF_HEAD
    names = [name for name in sorted(by_name) if bool({*name[:2]} & {*HEAD, *OF_HEAD}) == head] or sorted(
        by_name
    )
    path = generator.choice(by_name[generator.choice(names)])
    parent, key, value = value_at(content, path[:-1]), path[-1], value_at(content, path)
    if generator.random() < 0.15:
        _change_structure(content, parent, key, generator)
    elif isinstance(value, bool) or value is None:
        parent[key] = generator.choice((0, 1, None, True, "", [], {}))
    elif isinstance(value, int):
        parent[key] = generator.choice(INTEGERS)(value, generator)
    elif isinstance(value, float):
        whole = int(value) if math.isfinite(value) else 0  # a change before this one may have written NaN
        parent[key] = generator.choice((-value, value * 2, math.nan, math.inf, 0.0, str(value), whole))
    elif isinstance(value, str) and HEX.fullmatch(value):
        parent[key] = _change_number(content, value, generator)
    elif (numbers := array_of(value)) is not None and numbers.size:
        parent[key] = _change_array(content, path, numbers, generator)
    elif isinstance(value, str):
        parent[key] = generator.choice((value + ".", "", value.upper(), value[:-1], "∀", 1, None, [value]))
    else:
        _change_structure(content, parent, key, generator)


INTEGERS: tuple[Callable[[int, random.Random], Any], ...] = (
    lambda value, _: value + 1,
    lambda value, _: value - 1,
    lambda value, _: value * 2,
    lambda _, generator: generator.randrange(8),
    lambda *_: 0,
    lambda *_: -1,
    lambda *_: 2**62,
    lambda *_: 10**30,
    lambda value, _: str(value),
    lambda value, _: float(value),
    lambda value, _: bool(value),
    lambda *_: None,
)


def _change_number(content: Content, text: str, generator: random.Random) -> Any:
    number = float.fromhex(text)
    changes: tuple[Callable[[], Any], ...] = (
        lambda: (-number).hex(),
        lambda: math.nextafter(number, math.inf).hex(),
        lambda: math.nextafter(number, -math.inf).hex(),
        lambda: (number * generator.choice((0.5, 2.0, 1 + 1e-6, 1 - 1e-6, 1e-3, 1e3, 0.9, 1.1))).hex(),
        lambda: (number * generator.choice((0.5, 2.0, 1 + 1e-6, 1 - 1e-6, 1e-3, 1e3, 0.9, 1.1))).hex(),
        lambda: (0.0).hex(),
        lambda: generator.choice((5e-324, 1.7976931348623157e308, 1.0, 1e-300)).hex(),
        lambda: generator.choice(("inf", "nan", "-inf", "0x1p99999", "0x1p-99999", text.upper(), text + " ")),
        lambda: number,
        lambda: _other(content, text, generator),
    )
    return generator.choice(changes)()


def _other(content: Content, text: str, generator: random.Random) -> Any:
    values = (value_at(content, path) for path in paths_of(content))
    numbers = sorted({v for v in values if isinstance(v, str) and HEX.fullmatch(v)} - {text})
    return generator.choice(numbers or [text])


def _change_array(
    content: Content, path: Path, numbers: NDArray[np.float64], generator: random.Random
) -> Any:
    size = len(numbers)
    width = generator.choice([w for w in range(1, size + 1) if size % w == 0])
    rows = numbers.reshape(-1, width)
    first, second = generator.randrange(len(rows)), generator.randrange(len(rows))
    entry = generator.randrange(size)
    operator = generator.randrange(14)
    if operator == 0:
        numbers = rows[generator.sample(range(len(rows)), len(rows))].ravel()
    elif operator == 1:
        rows[[first, second]] = rows[[second, first]]
    elif operator == 2:
        rows[first] = rows[second]
    elif operator == 3:
        numbers = numbers[:-1]
    elif operator == 4:
        numbers = np.append(numbers, numbers[entry])
    elif operator == 5:
        numbers[entry] = math.nextafter(numbers[entry], generator.choice((-math.inf, math.inf)))
    elif operator == 6:
        numbers[entry] *= generator.choice((0.5, 2.0, 1 + 1e-6, 1 - 1e-6, 1 + 1e-9, 0.0, -1.0))
    elif operator == 7:
        numbers *= generator.choice((0.5, 2.0, 1 + 1e-6, 1 - 1e-6, 1 + 1e-9, 0.0, -1.0))
    elif operator == 8:
        numbers[entry] = generator.choice((math.nan, math.inf, 5e-324, 1e308))
    elif operator == 9:
        numbers[entry] += generator.choice((1e-3, 1e-6, 1e-9, 1e-12)) * generator.choice((-1, 1))
    elif operator == 10:
        others = [p for p in paths_of(content) if name_of(p) == name_of(path)]
        return value_at(content, generator.choice(others))
    elif operator == 11:
        numbers = numbers[:0]
    elif operator == 12:
        return base64.b64encode(numbers.tobytes()).decode().replace("A", generator.choice("!-B\n"), 1)
    else:
        return [float(number) for number in numbers]
    return base64.b64encode(numbers.astype("<f8").tobytes()).decode()


def _change_structure(content: Content, parent: Any, key: Any, generator: random.Random) -> None:
    paths = paths_of(content)
    other = copy.deepcopy(value_at(content, generator.choice(paths)))
    operator = generator.randrange(6)
    if operator == 0:
        del parent[key]
    elif operator == 1:
        parent[key] = None
    elif operator == 2:
        parent[key] = other
    elif isinstance(parent, dict):
        if operator == 3:
            parent[generator.choice(("remark", "verified", key + " ", "0", "pairs"))] = other
        elif operator == 4:
            parent[TWICE + key] = generator.choice((other, parent[key]))
        else:
            parent[generator.choice((key.upper(), key + "s"))] = parent.pop(key)
    elif operator == 3:
        parent.insert(key, copy.deepcopy(parent[key]))
    elif operator == 4:
        parent.reverse()
    else:
        place = generator.randrange(len(parent))
        parent[key], parent[place] = parent[place], parent[key]


def _fit_summary(content: Content) -> None:
    """Count again what is claimed, as a forger would; where there is nothing to count, nothing is done."""
    try:
        summaries = [{**claim, "summary": {}} for claim in content["claims"]]
        read = parse_certificate({**content, "claims": summaries}).claims
        for claim, found in zip(content["claims"], read, strict=True):
            if isinstance(found, VisitedPairs):
                claim["summary"] = summarise(found.pairs)
    except (RefusedError, AttributeError, TypeError, ValueError, KeyError):
        return


def lines_of(content: Content) -> Content:
    """Return the lines of the head and of all claims side by side, as the judges read them."""
    found = {name: value for name, value in content.items() if name != "claims"}
    found["kinds"] = [claim["kind"] for claim in content["claims"]]
    found["statements"] = {claim["kind"]: claim["statements"] for claim in content["claims"]}
    for claim in content["claims"]:
        found |= {name: value for name, value in claim.items() if name not in ("kind", "statements")}
    return found
