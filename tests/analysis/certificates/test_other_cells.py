"""Words and every length of implicit models of other cells, by their own code on balls."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analysis.certificates.certificate import RefusedError
from analysis.certificates.proofs.words import analyse, enclosed_loop
from analysis.certify import certify
from analysis.check_certificate import CheckSettings, check_certificate
from automata.errors import InputError
from benchmarks.certificate_mutations.targets import constant
from implicit.config.recipes import recipe
from implicit.enclosed.any_loop import EnclosedAnyLoop
from implicit.enclosed.closed_loop import EnclosedClosedLoop
from implicit.runs.loading import Run, initial_model, load_run
from theory.rigorous.balls import Ball, Dual


def untrained(model: str, **sizes: Any) -> Run:
    """Small, and always of one answer: the head is nearly constant, the layer reads little of the latent."""
    config = recipe("parity", model, seed=2, damping=0.5, **sizes)
    network = initial_model(config, config.build_task())
    with torch.no_grad():
        network.get_parameter("mixers.0.in_proj.weight").mul_(0.3)
        network.get_parameter("mixers.0.out_proj.weight").mul_(10)
        network.get_parameter("head.weight").mul_(0.05)
        network.get_parameter("head.bias").copy_(torch.tensor([3.0, -3.0]))
    return constant(Run(Path("runs/small"), config, network, config.build_task(), []))


def test_words_of_a_deltanet_are_proved_and_have_no_check() -> None:
    run = untrained("implicit-deltanet", d_model=4, heads=1, key_size=2, value_size=2, d_conv=2)
    found = analyse(run, length=2, dtype="real")
    assert found.proved_length == 2
    certificate = certify(run, claim="words", length=2, dtype="real")
    with pytest.raises(RefusedError, match=r"config\.model: is not one of which answers are"):
        check_certificate(certificate, run, CheckSettings(processes=1))
    with pytest.raises(InputError, match="of implicit-deltanet rounding is not bounded"):
        analyse(run, length=2)


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


def test_every_length_of_a_gated_deltanet_is_proved() -> None:
    sizes = {"d_model": 2, "heads": 1, "key_size": 1, "value_size": 2, "d_conv": 1}
    run = untrained("implicit-gated-deltanet", **sizes)
    with torch.no_grad():
        run.model.get_parameter("mixers.0.decay.A_log").add_(4.0)
        run.model.get_parameter("mixers.0.in_proj.weight").mul_(0.1)
    chosen = {"distance": 3e-3, "rate": 0.9, "fraction": 0.05, "sets": 2000}
    certificate = certify(run, claim="lengths", dtype="real", **chosen)
    assert certificate.only.kind == "lengths"
