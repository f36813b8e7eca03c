"""Other cells: certificates of an implicit DeltaNet, and words and lengths by a cell's own code on balls."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from analysis.certificates.certificate import RefusedError, parse_certificate
from analysis.certificates.producing import certificate_of
from analysis.certificates.proofs.words import enclosed_loop, prove_words
from analysis.certify import certify
from analysis.check_certificate import check_certificate
from automata.errors import InputError
from automata.tasks.registry import make_task
from benchmarks.certificate_mutations.targets import constant
from implicit.cells import Cell, GatedDeltaNetCell
from implicit.enclosed.any_loop import EnclosedAnyLoop
from implicit.enclosed.closed_loop import EnclosedClosedLoop
from implicit.models.implicit_model import implicit_model
from implicit.models.interface import ModelOutput
from implicit.runs.loading import Run, load_run
from tests.analysis.lines import ONE_PROCESS, Content, array, forgeries, put
from tests.small_models import untrained
from theory.rigorous.balls import Ball, Dual
from theory.transition import State


def always_right(model: str, **sizes: Any) -> Run:
    """Small, and always of one answer: the head is nearly constant, the layer reads little of the latent."""
    run = untrained(model, seed=2, damping=0.9, **sizes)
    with torch.no_grad():
        run.model.get_parameter("mixers.0.in_proj.weight").mul_(0.3)
        run.model.get_parameter("mixers.0.out_proj.weight").mul_(10)
        run.model.get_parameter("head.weight").mul_(0.05)
        run.model.get_parameter("head.bias").copy_(torch.tensor([3.0, -3.0]))
    return constant(run)


def test_words_of_a_deltanet_are_proved_and_have_no_check() -> None:
    run = always_right("implicit-deltanet", d_model=4, heads=1, key_size=2, value_size=2, d_conv=2)
    found = prove_words(run, length=2, dtype="real")
    assert found.proved_length == 2
    certificate = certificate_of(run, found)
    with pytest.raises(RefusedError, match=r"config\.model: is not one of which answers are"):
        check_certificate(certificate, run, ONE_PROCESS)
    with pytest.raises(InputError, match="of implicit-deltanet rounding is not bounded"):
        prove_words(run, length=2)


def test_both_forms_of_mamba_2_enclose_the_same_step() -> None:
    model = load_run("parity-small").model.double().implicit
    assert model is not None
    hand = enclosed_loop(model)
    assert isinstance(hand, EnclosedClosedLoop)
    own, generator = EnclosedAnyLoop(model), np.random.default_rng(0)
    assert (own.state_size, own.latent_size) == (hand.state_size, hand.latent_size) == (18, 8)
    z = Dual.variable(Ball.around(generator.standard_normal((2, 8)), 1e-9), 26)
    tangent = np.broadcast_to(np.eye(18, 26, k=8), (2, 18, 26)).copy()
    s = Dual(Ball.around(generator.standard_normal((2, 18)), 1e-9), Ball.exact(tangent))
    for one, other in zip(hand.advance(z, s, [0, 1]), own.advance(z, s, [0, 1]), strict=True):
        for mine, theirs in ((one.value, other.value), (one.tangent, other.tangent)):
            apart = np.abs(mine.midpoint - theirs.midpoint)
            assert (apart <= mine.radius + theirs.radius).all()
            assert theirs.radius.max() < 1e-6
    pairs = zip((hand.logits(z), own.logits(z)), strict=True)
    (first,), (second,) = pairs
    assert (np.abs(first.value.midpoint - second.value.midpoint) < 1e-12).all()
    assert (np.abs(first.tangent.midpoint - second.tangent.midpoint) < 1e-12).all()


def forgetting() -> Run:
    """A gated DeltaNet of which every length is proved."""
    sizes = {"d_model": 2, "heads": 1, "key_size": 1, "value_size": 2, "d_conv": 1}
    run = always_right("implicit-gated-deltanet", **sizes)
    with torch.no_grad():
        run.model.get_parameter("mixers.0.decay.A_log").add_(4.0)
        run.model.get_parameter("mixers.0.in_proj.weight").mul_(0.1)
    return run


SEARCH: dict[str, Any] = {"distance": 3e-3, "rate": 0.9, "fraction": 0.05, "sets": 2000, "rtol": 1e-10}


def test_every_length_of_a_gated_deltanet_is_proved_from_its_own_initial_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    zeros = GatedDeltaNetCell.init_state
    monkeypatch.setattr(
        GatedDeltaNetCell,
        "init_state",
        lambda *given: {name: part + 0.5 for name, part in zeros(*given).items()},
    )
    certificate = certify(forgetting(), claim="lengths", dtype="real", **SEARCH)
    claim = certificate.only
    assert claim.kind == "lengths"
    assert (claim.centres.reshape(len(claim.labels), -1)[0] == 0.5).all()
    assert "what the model's init_state returns" in claim.statements["meaning"]


class ByType(GatedDeltaNetCell):
    """Another function in the run's own type than in float64."""

    states, forward = Cell.states, Cell.forward

    def step(self, inputs: Tensor, *given: Any) -> tuple[Tensor, State]:
        return super().step(self._seen(inputs), *given)

    def _seen(self, inputs: Tensor) -> Tensor:
        return inputs * (1 if inputs.dtype == torch.float64 else -1)


@pytest.mark.parametrize("claim", ["words", "lengths", "theorem1"])
def test_a_cell_of_another_function_in_its_own_type_is_refused(claim: str) -> None:
    kind: Any = implicit_model("implicit-by-type", ByType, "by type")
    task = make_task("parity")
    sizes = {"d_model": 4, "heads": 1, "key_size": 2, "value_size": 2, "d_conv": 1}
    model = kind(vocabulary_size=2, output_size=2, **sizes)
    chosen: dict[str, Any] = {"states": 2, "sequences": 2, "length": 4}
    with pytest.raises(
        InputError, match=r"Φ or G of ImplicitByType is another function in torch\.float32 than in"
    ):
        certify(Run.of(model, task), claim=claim, **(chosen if claim == "theorem1" else {"dtype": "real"}))


OfUser: Any = implicit_model("implicit-of-user", GatedDeltaNetCell, "a user's")


class Negating(OfUser):
    """Whole words have other answers than their tokens one by one."""

    def run(self, tokens: Tensor, *given: Any, **options: Any) -> ModelOutput:
        output = super().run(tokens, *given, **options)
        return replace(output, logits=-output.logits) if tokens.shape[1] > 1 else output


class Hooked(OfUser):
    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.register_forward_hook(lambda _module, _given, logits: -logits)


@pytest.mark.parametrize(
    ("kind", "claim", "chosen"),
    [(Negating, "words", {"length": 2}), (Hooked, "words", {"length": 2}), (Negating, "lengths", SEARCH)],
)
def test_a_model_that_answers_otherwise_than_from_its_steps_is_refused(
    kind: Any, claim: str, chosen: dict[str, Any]
) -> None:
    run = forgetting()
    model = kind(**run.model.config.model_dump())
    model.load_state_dict(run.model.state_dict())
    own = replace(run, model=model.eval())
    with pytest.raises(InputError, match=f"{kind.__name__} (itself|has hooks), of which nothing is proved"):
        certify(own, claim=claim, dtype="real", **chosen)


@pytest.fixture(scope="module")
def run() -> Run:
    """A small model with random weights, whose iterations take some 20 steps."""
    run = untrained("implicit-deltanet", seed=2, damping=0.9, d_model=6, heads=2, key_size=3, value_size=4)
    with torch.no_grad():
        run.model.get_parameter("mixers.0.in_proj.weight").mul_(0.3)
    return run


@pytest.fixture(scope="module")
def content(run: Run) -> Content:
    certificate = certify(run, states=3, sequences=4, length=4)
    summary = certificate.only.summary
    assert summary == {**dict.fromkeys(summary, 3), "non_linear": 2}  # one state is the only one of its token
    assert "memory" in certificate.only.statements["meaning"]
    return certificate.model_dump(mode="json")


def test_a_certificate_of_the_producer_holds(content: Content, run: Run) -> None:
    verdict = check_certificate(parse_certificate(content), run, ONE_PROCESS)
    assert "C1 to C3 of Theorem 1 hold, and ∂h'/∂h is non-diagonal and non-linear, at 2 of 3 pairs" in verdict


test_a_false_line_is_named_even_under_a_new_seal = forgeries(
    {
        "entry": put(
            "pairs/0/point/entries/0",
            lambda ends: [(float.fromhex(ends[1]) + by).hex() for by in (1e-3, 2e-3)],
        ),
        "memory": array("pairs/0/state/memory.0", lambda numbers: numbers + 0.1, "pairs[0].state"),
    }
)
