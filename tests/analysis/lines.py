"""Lines of certificates as tests change them, and the check of a certificate with a context of one's own."""

import base64
import copy
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

import numpy as np
import pytest

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
        weights=weights or {name: tensor.float().numpy() for name, tensor in run.model.state_dict().items()},
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
Forgery = tuple[Forge, str]
"""A change of the lines of a certificate, and the line that has to be refused."""


def line_refused(content: Content, run: Run, forge: Forge) -> str:
    """Return the line that is refused of a certificate that was forged and sealed anew."""
    forged = copy.deepcopy(content)
    forge(Lines(forged))
    forged["sha256"] = seal(forged)
    with pytest.raises(RefusedError) as refusal:
        check_certificate(parse_certificate(forged), run, ONE_PROCESS)
    return line_of(refusal.value)


def _part(lines: Any, path: str) -> tuple[Any, Any]:
    """What holds a line, and its key there: ``pairs.2.point`` are keys and places in lists.

    Where a key has a point in it, ``/`` is between them.
    """
    *above, last = (
        int(key) if key.lstrip("-").isdigit() else key for key in path.split("/" if "/" in path else ".")
    )
    for key in above:
        lines = lines[key]
    return lines, last


def put(path: str, value: Any) -> Forge:
    """Write a value in place of a line, or what a function makes of it."""

    def forge(lines: Any) -> None:
        part, key = _part(lines, path)
        part[key] = value(part[key]) if callable(value) else value

    return forge


def scaled(path: str, factor: float) -> Forge:
    """Scale a number."""
    return put(path, lambda old: (float.fromhex(old) * factor).hex())


def entry(path: str, place: int, change: Callable[[float], float]) -> Forge:
    """Change one number of an array."""

    def changed(text: str) -> str:
        numbers = np.frombuffer(base64.b64decode(text), "<f8").copy()
        numbers[place] = change(numbers[place])
        return base64.b64encode(numbers.tobytes()).decode()

    return put(path, changed)


def drop(path: str) -> Forge:
    """Leave a line out."""

    def forge(lines: Any) -> None:
        part, key = _part(lines, path)
        del part[key]

    return forge
