"""The format of certificates, a head with claims and a seal, and the loop that checks them.

How the kinds are checked stands in `analysis.certificates.claims`, a file each; what they say stands in
Markdown beside it. Claims are proved again by other means than they were made with
(`analysis.certificates.arb`), in several processes. Nothing is started that would take more than is allowed
of time or memory.

Numbers that a proof rests on are exact: single ones as hexadecimal floats, arrays as base64 of little-endian
float64. Each number has one spelling, that which Python writes, and a document that spells it otherwise is
refused. Unverified entries stand under ``unchecked`` and nowhere else. `automata.data_files.strict_json`
reads the JSON: one meaning for every text.
"""

import base64
import hashlib
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    NonNegativeInt,
    PlainSerializer,
    PositiveInt,
    SerializeAsAny,
    Strict,
    ValidationError,
    ValidationInfo,
)

from automata.command_line import progress_bar
from automata.data_files import read_file, strict_json
from automata.errors import InputError, printable
from automata.processes import spawned_workers

FORMAT: Final = "implicit-ssm certificate, version 2"
CERTIFICATE = "certificate.json"
"""The name under which ``python -m analysis.certify`` writes certificates."""
LARGEST_INTEGER = 2**63 - 1
PRODUCER_PRECISION = 53
ARITHMETIC = "float64 balls: midpoints and radii, outward error bounds of every operation"
LEAST_ULPS = 4
MOST_ULPS = 2**10
"""PyTorch's functions were measured to be off by more than one ulp. A smaller bound holds of no program."""
WEIGHTS_CONDITION = "the weights are taken as the exact numbers that they are"
BYTES_OF_A_BALL = 160  # a FLINT ball takes so many bytes beside its bits, the Python object included
LONGEST_NUMBER = 32  # characters; the longest that Python writes is ``-0x1.0000000000000p-1022``
LONGEST_SHOWN = 60  # characters of a document's own text that a refusal shows
_AS_READ = {"as read": True}
"""The context in which a document that was read is validated: numbers are text there."""


class RefusedError(Exception):
    """A certificate does not hold; the message names the first line that fails and why."""

    def __init__(self, line: str, reason: str) -> None:
        super().__init__(f"{line}: {reason}")
        self.line, self.reason = line, reason

    def __reduce__(self) -> tuple[type["RefusedError"], tuple[str, str]]:
        """Let it cross from a worker process."""
        return type(self), (self.line, self.reason)


def _from_hex(text: Any, info: ValidationInfo) -> Any:
    if not isinstance(text, str):
        if info.context is None and isinstance(text, float) and math.isfinite(text):  # of the producer
            return float(text)
        raise ValueError("is not a hexadecimal float that is finite, as text")
    try:
        number = float.fromhex(text) if len(text) <= LONGEST_NUMBER else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and number.hex() == text):
        raise ValueError("is not a finite number as float.hex() writes it")
    return number


def _from_base64(text: Any, info: ValidationInfo) -> Any:
    if info.context is None and isinstance(text, np.ndarray):  # of the producer
        numbers = text.astype(np.float64).ravel()
    elif isinstance(text, str):
        try:
            numbers = np.frombuffer(base64.b64decode(text, validate=True), dtype="<f8")
        except ValueError:
            raise ValueError("is not base64 of float64 numbers") from None
        if base64.b64encode(numbers.tobytes()).decode() != text:
            raise ValueError("is not base64 as it is written: bits are set behind its last number")
    else:
        raise ValueError("is not base64 of float64 numbers, as text")
    if not np.isfinite(numbers).all():
        raise ValueError("holds a number that is not finite")
    return numbers


Number = Annotated[float, BeforeValidator(_from_hex), PlainSerializer(float.hex)]
Numbers = Annotated[
    NDArray[np.float64],
    BeforeValidator(_from_base64),
    PlainSerializer(lambda array: base64.b64encode(array.astype("<f8").tobytes()).decode()),
]
Interval = Annotated[tuple[Number, Number], Strict(False)]  # its two ends; JSON has it as a list


class Part(BaseModel):
    """A part of a document: unchangeable, with no fields but its own, where no type passes for another."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)


class Arithmetic(Part):
    """The arithmetic of the proof."""

    producer: str
    precision: PositiveInt


class Unchecked(Part):
    """Remarks of the producer: nobody verifies them, no verdict depends on them, no checker prints them."""

    search: dict[str, Any]
    environment: dict[str, Any]
    seconds: float


class Automaton(Part):
    """The task: ``table[state][token]`` is the next state, and ``answers[state][token]`` the answer.

    Where every answer is the next state, as of a word problem, ``answers`` is None.
    """

    initial_state: NonNegativeInt
    table: list[list[NonNegativeInt]]
    answers: list[list[NonNegativeInt]] | None = None

    def after(self, word: Sequence[int]) -> int:
        """Return the state after a word."""
        state = self.initial_state
        for token in word:
            state = self.table[state][token]
        return state


@dataclass(frozen=True)
class Work:
    """The most that checking takes: operations on balls, balls held at once, bits of each."""

    steps: float
    balls: float
    bits: int

    @property
    def operations(self) -> float:
        """Steps times bits: some 5 · 10⁹ a second on one core."""
        return self.steps * self.bits

    @property
    def bytes(self) -> float:
        """The most bytes of memory that balls take at once."""
        return self.balls * (BYTES_OF_A_BALL + self.bits / 8)


class Verdict(NamedTuple):
    """One short sentence on what was verified, and its conditions; both are the checker's own words."""

    claim: str
    conditions: tuple[str, ...]


class Claim(Part, ABC):
    """A claim of a certificate; its subclass is found by ``kind``."""

    kinds: ClassVar[dict[str, "type[Claim]"]] = {}
    models: ClassVar[tuple[str, ...]] = ()
    says: ClassVar[Mapping[str, str]] = {}

    kind: str
    statements: dict[str, str]

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Enter a class that names its kind."""
        for kind in get_args(cls.model_fields["kind"].annotation):
            Claim.kinds[kind] = cls

    @classmethod
    def stated(cls, config: Mapping[str, Any]) -> dict[str, str]:
        """Return the statements of the kind, for a run of a configuration; some differ by the model."""
        model = config["model"]
        kind = model if model in cls.models else "other models"
        found = {name: text for name, text in cls.says.items() if " of " not in name}
        return {name: cls.says.get(f"{name} of {kind}", text) for name, text in found.items()}

    @abstractmethod
    def work(self, context: "Context") -> Work:
        """Bound the work of checking, from the sizes of arrays alone."""

    @abstractmethod
    def check(self, context: "Context") -> None:
        """Verify all that is claimed."""

    @abstractmethod
    def verdict(self, config: Mapping[str, Any]) -> Verdict:
        """Return the verdict on a run of a configuration."""


class Certificate(Part):
    """The whole document: what it is about, what is claimed, and its seal."""

    format: Literal["implicit-ssm certificate, version 2"]
    run: dict[str, str | int | bool]
    config: dict[str, Any]
    arithmetic: Arithmetic
    automaton: Automaton | None
    claims: list[SerializeAsAny[Claim]]
    unchecked: Unchecked
    sha256: str

    def __repr__(self) -> str:
        claims = ", ".join(claim.kind for claim in self.claims)
        of = f"{self.run['model']} on {self.run['task']}"
        return printable(f"Certificate: {claims}, of {of}, SHA-256 {self.sha256}")

    def seal(self) -> str:
        """Return the SHA-256 of everything but itself: it shows damage, not intent."""
        return seal(self.model_dump(mode="json"))

    def sealed(self) -> Self:
        """Return the document with its seal."""
        return self.model_copy(update={"sha256": self.seal()})

    @property
    def only(self) -> Any:
        """The one claim; ValueError if there are others."""
        (claim,) = self.claims
        return claim


def parse_certificate(content: Any) -> Certificate:
    """Return the certificate that JSON holds; every claim is read as what its kind makes it."""
    if not isinstance(content, dict):
        raise RefusedError("file", "is not a JSON object")
    if content.get("format") != FORMAT:
        raise RefusedError("format", f"is not {FORMAT!r}; prove again with python -m analysis.certify RUN")
    found = content.get("claims")
    if not isinstance(found, list) or not found:
        raise RefusedError("claims", "is not a list with a claim in it")
    claims = []
    for number, claim in enumerate(found):
        kind = claim.get("kind") if isinstance(claim, dict) else None
        if not isinstance(kind, str) or kind not in Claim.kinds:
            raise RefusedError(f"claims[{number}].kind", f"is none of {', '.join(sorted(Claim.kinds))}")
        claims.append(read_part(Claim.kinds[kind], claim, f"claims[{number}]"))
    if len({claim.kind for claim in claims}) < len(claims):
        raise RefusedError("claims", "hold two of one kind")
    certificate: Certificate = read_part(Certificate, {**content, "claims": claims}, "")
    return certificate


def statements(*names: str) -> dict[str, str]:
    """Return what kinds of claims state: the paragraphs of Markdown files in `claims`, by their headings."""
    texts = [Path(__file__).with_name("claims").joinpath(f"{name}.md").read_text("utf-8") for name in names]
    parts = [part.partition("\n") for text in texts for part in text.split("\n## ")[1:]]
    return {heading: " ".join(text.split()) for heading, _, text in parts}


def sha256_of(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a JSON object, whose keys are sorted first."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def seal(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document without its seal."""
    return sha256_of({name: value for name, value in content.items() if name != "sha256"})


def same_json(one: Any, other: Any) -> bool:
    """Return whether two values are the same JSON: ``1``, ``1.0`` and ``true`` are three."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def read_part(kind: type[Any], content: Any, line: str) -> Any:
    """Return a part of a document from its JSON; a refusal names the line."""
    try:
        return kind.model_validate(content, context=_AS_READ)
    except ValidationError as fault:
        first = fault.errors(include_url=False, include_input=False)[0]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{shown(part)}" for part in first["loc"])
        raise RefusedError(f"{line}{place}".lstrip(".") or "file", first["msg"].lower()) from None


def shown(key: str) -> str:
    """Return a key as a refusal names it: what is no plain name in quotes, and short.

    A key is the forger's own text, and could hold a line that looks like a verdict.
    """
    plain = key.isidentifier() and key.isascii() and len(key) <= LONGEST_SHOWN
    return key if plain else ascii(key[:LONGEST_SHOWN])


def read_json(path: Path) -> dict[str, Any]:
    """Read the JSON object of a certificate."""
    try:
        return parse_json(read_file(path))
    except (FileNotFoundError, IsADirectoryError):
        raise InputError(
            f"certificate {path} does not exist; make one with python -m analysis.certify RUN"
        ) from None


def parse_json(text: bytes) -> dict[str, Any]:
    """Return the JSON object that a text holds."""
    try:
        content = strict_json(text, "file:", remedy="")
    except InputError as fault:
        raise RefusedError("file", str(fault).removeprefix("file: ")) from None
    if not isinstance(content, dict):
        raise RefusedError("file", "is not a JSON object")
    _check_integers(content)
    return content


def _check_integers(content: Any) -> None:
    if isinstance(content, int) and abs(content) > LARGEST_INTEGER:
        raise RefusedError("file", "holds an integer beyond 64 bits")
    if isinstance(content, dict | list):
        for part in content.values() if isinstance(content, dict) else content:
            _check_integers(part)


Weights = Mapping[str, NDArray[np.floating[Any]]]
EVALUATED = re.compile(
    r"(embedding|embedding_norm|latent_norm|final_norm|injections\.\d+|mixer_norms\.\d+)\.weight|"
    r"head\.(weight|bias)|"
    r"mixers\.\d+\.((in_proj|out_proj|norm|convolution)\.weight|conv1d\.(weight|bias)|dt_bias|A_log|D)"
)
"""The weights that the evaluations of Mamba-2 and DeltaNet read, and the last norm of explicit models, which
no state depends on."""
A_SECOND = 5 * 10.0**9  # operations times bits that one core does in a second, about
MOST_WORK = 2 * 10.0**14
"""Hours on one core; the largest certificate of a stored run takes less than a fifth of it."""
MOST_MEMORY = 16 * 10.0**9  # bytes


class Visit(NamedTuple):
    """A place in the sequences of a task: the word before it leads to a state, in which the token is read."""

    sequence: int
    position: int
    token: int
    word: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Context:
    """A checker's input from the run, and its limits."""

    weights: Weights
    config: Mapping[str, Any]
    automaton: Automaton | None  # of the task; None if it has none
    visits: Callable[[Mapping[str, int]], list[Visit]]
    claims: tuple[Claim, ...] = ()
    bits: int = 128
    processes: int = 1
    most_work: float = MOST_WORK

    @property
    def sizes(self) -> Mapping[str, Any]:
        """The sizes of the model, as the configuration has them."""
        sizes: Mapping[str, Any] = self.config["sizes"]
        return sizes

    @property
    def weight_count(self) -> int:
        """The number of entries of all weights."""
        return sum(part.size for part in self.weights.values())


def check(certificate: Certificate, context: Context, identity: Mapping[str, str | int | bool]) -> None:
    """Verify a certificate: its head, its claims, and its seal, in order."""
    check_identity(certificate, identity)
    claims = [(f"claims[{number}].", claim) for number, claim in enumerate(certificate.claims)]
    if not claims:
        raise RefusedError("claims", "are none")
    for place, claim in claims:
        if claim.statements != claim.stated(context.config):
            raise RefusedError(
                f"{place}statements", "are not those of this format; make the certificate anew from the run"
            )
    check_head(certificate, context)
    for check_one in (_check_work, lambda claim, of: claim.check(of)):
        for place, claim in claims:
            try:
                check_one(claim, context)
            except RefusedError as refusal:
                first = re.split(r"[.\[]", refusal.line)[0]
                if first not in type(claim).model_fields:
                    raise
                raise RefusedError(f"{place}{refusal.line}", refusal.reason) from None
    if certificate.seal() != certificate.sha256:
        raise RefusedError("sha256", "is not the hash of the other lines")


def _check_work(claim: Claim, context: Context) -> None:
    work = claim.work(context)
    if not work.operations <= context.most_work:
        raise RefusedError(
            "kind",
            f"the check takes up to {work.operations:.1e} operations times bits, more than --work "
            f"{context.most_work:.1e}, some {context.most_work / A_SECOND / 3600:.1f} h; ask for more",
        )
    if not work.bytes * context.processes <= MOST_MEMORY:
        raise RefusedError(
            "kind", f"the check takes up to {work.bytes:.1e} bytes a process, of {MOST_MEMORY:.1e} for all"
        )


def check_head(certificate: Certificate, context: Context) -> None:
    """Verify that a certificate is about the settings and the task of a run."""
    config, bits, held = context.config, context.bits, certificate.config
    _check_same(held, config, "config")
    if certificate.arithmetic.producer != ARITHMETIC:
        raise RefusedError("arithmetic.producer", "is not that of the format")
    if certificate.arithmetic.precision != PRODUCER_PRECISION:
        raise RefusedError("arithmetic.precision", f"is not {PRODUCER_PRECISION}, that of the format")
    if bits <= PRODUCER_PRECISION:
        raise RefusedError("arithmetic.precision", f"is not below that of the check, {bits}")
    if certificate.automaton != context.automaton:
        raise RefusedError("automaton", "is not that of the run's task")


def _check_same(held: Any, wanted: Any, line: str) -> None:
    """Refuse the first entry in which two parts of configurations differ."""
    if isinstance(held, dict) and isinstance(wanted, dict):
        for name in sorted({*held, *wanted}):
            place = f"{line}.{shown(name)}"
            if name not in wanted or name not in held:
                raise RefusedError(place, "is missing" if name in wanted else "is no entry of the run's")
            _check_same(held[name], wanted[name], place)
    elif not same_json(held, wanted):
        raise RefusedError(line, f"is {_quoted(held)}, and that of the run is {_quoted(wanted)}")


def _quoted(value: Any) -> str:
    """A value in JSON, a text in quotes, cut: none can pass for a sentence of the checker."""
    text = json.dumps(value, sort_keys=True)
    return f"{text[:LONGEST_SHOWN]}{'…' * (len(text) > LONGEST_SHOWN)}"


def check_identity(certificate: Certificate, identity: Mapping[str, str | int | bool]) -> None:
    """Verify that what a certificate says of its run is what the run says, and no more."""
    if set(certificate.run) != set(identity):
        held, expected = (", ".join(map(shown, sorted(names))) for names in (certificate.run, identity))
        raise RefusedError("run", f"holds {held}, and should hold {expected}")
    for name, value in reversed([*identity.items()]):  # the weights first
        if not same_json(certificate.run[name], value):
            raise RefusedError(f"run.{name}", f"is not that of the run given, {_quoted(value)}")


def check_answers(context: Context, models: Collection[str]) -> Automaton:
    """Return the automaton of right answers: of a word problem, and of a model of one layer that is known."""
    model, automaton = context.config.get("model"), context.automaton
    if model not in models:
        raise RefusedError("config.model", f"is not one of which answers are proved, {', '.join(models)}")
    if automaton is None or automaton.answers is not None:
        raise RefusedError("automaton", "is not that of a word problem, whose answers are the next states")
    if len(automaton.table) < 2:
        raise RefusedError("automaton", "has one state only, so that right answers claim nothing")
    if context.sizes["layers"] != 1:
        raise RefusedError("config.sizes", "are not those of a model of one layer")
    return automaton


def check_weights(weights: Collection[str]) -> None:
    """Verify that a run has no weights but those that the checkers' evaluation of a model reads."""
    for name in weights:
        if not EVALUATED.fullmatch(name):
            raise RefusedError("config.sizes", f"are of a model whose {name} the checker cannot evaluate")


def check_each(
    context: Context,
    make: Callable[..., Any],
    arguments: tuple[Any, ...],
    jobs: Sequence[tuple[Any, ...]],
    *,
    unit: str,
    at_once: int = 16,
) -> None:
    """Give every job to ``make(*arguments).check``, in several processes, with a bar.

    A checker is made in each process, and as many jobs as ``at_once`` are handed to it together.
    """
    with progress_bar(total=len(jobs), desc=f"{unit}s", unit=unit) as bar:
        if context.processes == 1:
            checker = make(*arguments)
            for job in jobs:
                checker.check(*job)
                bar.update()
            return
        with spawned_workers(context.processes, _begin, (make, arguments)) as pool:
            for _ in pool.map(_check_one, jobs, chunksize=at_once):
                bar.update()


_CHECKERS: list[Any] = []  # the checker of a worker process, alone in the list


def _begin(make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    _CHECKERS.append(make(*arguments))


def _check_one(job: tuple[Any, ...]) -> None:
    _CHECKERS[0].check(*job)
