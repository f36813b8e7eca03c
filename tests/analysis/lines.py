"""Lines of certificates as tests change them, and the check of a certificate with a context of one's own."""

import base64
import copy
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from analysis.certificates.arb.linear import precision
from analysis.certificates.certificate import (
    Automaton,
    Certificate,
    Context,
    RefusedError,
    check,
    parse_certificate,
    seal,
)
from analysis.certificates.producing import automaton_of
from analysis.check_certificate import CheckSettings, check_certificate
from implicit.models.interface import SequenceModel
from implicit.runs.loading import Run

Content = MutableMapping[str, Any]
ONE_PROCESS = CheckSettings(processes=1)
BITS = 128


class Lines(MutableMapping[str, Any]):
    """The lines of a certificate's JSON, those of its head and of one claim together; changes reach it."""

    def __init__(self, content: Content, claim: int = 0) -> None:
        self.content, self.claim = content, claim

    def _place(self, name: str) -> Content:
        content = self.content
        place: Content = content if name in content else content["claims"][self.claim]
        return place

    def __getitem__(self, name: str) -> Any:
        return self._place(name)[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._place(name)[name] = value

    def __delitem__(self, name: str) -> None:
        del self._place(name)[name]

    def __iter__(self) -> Iterator[str]:
        yield from (name for name in self.content if name != "claims")
        yield from self.content["claims"][self.claim]

    def __len__(self) -> int:
        return sum(1 for _ in self)


def weights_of(model: SequenceModel) -> dict[str, Any]:
    """Return a model's weights as the checkers get them."""
    return {name: tensor.float().numpy().copy() for name, tensor in model.state_dict().items()}


def line_of(refusal: RefusedError) -> str:
    """The line that is refused, without the place of its claim."""
    head, _, rest = refusal.line.partition("].")
    return rest if head.startswith("claims[") and rest else refusal.line


def check_as(
    certificate: Certificate | Content,
    run: Run,
    config: Mapping[str, Any] | None = None,
    automaton: Automaton | None = None,
    weights: Mapping[str, Any] | None = None,
    bits: int = 128,
) -> None:
    """Check a certificate whose head is believed, as if the run had this configuration, task, and weights."""
    if not isinstance(certificate, Certificate):
        certificate = parse_certificate(certificate)
    context = Context(
        weights=weights or weights_of(run.model),
        config=config or run.config.as_json(),
        automaton=automaton or automaton_of(run),
        visits=lambda _settings: [],
        claims=tuple(certificate.claims),
        bits=bits,
    )
    check(certificate, context, certificate.run)


def refused_at(check: Callable[[], object]) -> str:
    """Return the line that a check refuses; empty if it accepts."""
    try:
        with precision(BITS):
            check()
    except RefusedError as refusal:
        return refusal.line
    return ""


def is_accepted(check: Callable[[], object], line: str) -> bool:
    """Tell whether a check accepts; it must refuse no other line than this one."""
    found = refused_at(check)
    assert found in ("", line)
    return not found


Forge = Callable[[Any], object]
Line = str | tuple[str, ...]


@dataclass(frozen=True)
class Forgery:
    """A change of the lines of a certificate, and the line that is refused then, or beginnings of it."""

    forge: Forge
    line: Line

    def __call__(self, lines: Any) -> None:
        self.forge(lines)


ANYWHERE = ("",)
"""The first claim that no longer holds may be any."""


def line_refused(content: Content, run: Run, forge: Forge) -> str:
    """Return the line that is refused of a certificate that was forged and sealed anew."""
    forged = copy.deepcopy(content)
    forge(Lines(forged))
    forged["sha256"] = seal(forged)
    with pytest.raises(RefusedError) as refusal:
        check_certificate(parse_certificate(forged), run, ONE_PROCESS)
    return line_of(refusal.value)


def assert_refused(content: Content, run: Run, forgery: Forgery) -> None:
    """A forged certificate is refused, under a new seal, for the line that is false."""
    found = line_refused(content, run, forgery)
    assert found == forgery.line if isinstance(forgery.line, str) else found.startswith(forgery.line)


def forgeries(table: Mapping[str, Forgery]) -> Callable[[Content, Run, str], None]:
    """A test of each forgery of the fixture ``content``, which is a certificate of the fixture ``run``."""

    @pytest.mark.parametrize("name", table)
    def test(content: Content, run: Run, name: str) -> None:
        assert_refused(content, run, table[name])

    return test


def _part(lines: Any, path: str) -> tuple[Any, Any]:
    """Return what holds a line, and its key: ``pairs/2/state/ssm.0`` are keys and places in lists."""
    *above, last = (int(key) if key.lstrip("-").isdigit() else key for key in path.split("/"))
    for key in above:
        lines = lines[key]
    return lines, last


def _line(path: str) -> str:
    return re.sub(r"/(\d+)", r"[\1]", path).replace("/", ".")


def put(path: str, value: Any, line: Line | None = None) -> Forgery:
    """Write a value in place of a line, or what a function makes of it."""

    def forge(lines: Any) -> None:
        part, key = _part(lines, path)
        part[key] = value(part[key]) if callable(value) else value

    return Forgery(forge, _line(path) if line is None else line)


def scaled(path: str, factor: float, line: Line | None = None) -> Forgery:
    """Scale a number."""
    return put(path, lambda old: (float.fromhex(old) * factor).hex(), line)


def numbers_of(text: str) -> NDArray[np.float64]:
    """Return the numbers of an array."""
    return np.frombuffer(base64.b64decode(text), "<f8").copy()


def text_of(numbers: NDArray[Any]) -> str:
    """Return an array as certificates hold it."""
    return base64.b64encode(numbers.tobytes()).decode()


def array(
    path: str, change: Callable[[NDArray[np.float64]], NDArray[Any]], line: Line | None = None
) -> Forgery:
    """Change the numbers of an array."""
    return put(path, lambda text: text_of(change(numbers_of(text))), line)


def entry(path: str, place: int, change: Callable[[float], float], line: Line | None = None) -> Forgery:
    """Change one number of an array."""

    def changed(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        numbers[place] = change(numbers[place])
        return numbers

    return array(path, changed, f"{_line(path)}[{place}]" if line is None else line)


def drop(path: str, line: Line) -> Forgery:
    """Leave a line out."""

    def forge(lines: Any) -> None:
        part, key = _part(lines, path)
        del part[key]

    return Forgery(forge, line)
