"""Costs of phases and runs, against sums done by hand; the tables and faults of the command."""

from typing import Any

import pytest

from automata.errors import InputError
from implicit.language import published_config
from implicit.language.cost import Activations, Evaluation, TrainingCost, WeightMemory, published_phases
from implicit.language.cost.__main__ import Device, PublishedCost, main
from implicit.language.pretrain import Phase

FREE = Phase(share=1, iterations=24, phantom_steps=4)


def test_mamba2_130m_by_hand() -> None:
    """Per token, d = 768, inner 1536, state 128, 24 layers, 4 taps, 50,288 words, chunks of 64 tokens."""
    projections = 2 * 768 * 3352 + 2 * 1536 * 768
    scan = 2 * 64 * 128 + 2 * 64 * 1536 + 2 * 2 * 1536 * 128
    backward_scan = 3 * 2 * 64 * 128 + 2 * 2 * 64 * 1536 + 6 * 2 * 1536 * 128 - 2 * 1536 * 128 * 64 / 2048
    taps = 2 * 1792 * 4
    forward, backward = projections + scan + taps, 2 * projections + backward_scan + 3 * taps
    around = 3 * (2 * 768 * 50_288 + 2 * 768 * 3352)
    cost = TrainingCost(published_config("mamba2", "130m"))
    bounded, free = published_phases("mamba2")
    assert cost.per_token(bounded) == 24 * (7 * forward + backward) + around
    assert cost.per_token(free) == 24 * (33 * forward + 4 * backward) + around
    scans = 24 * (33 * scan + 4 * backward_scan)
    assert cost.mixing_share(free) == pytest.approx(scans / cost.per_token(free), rel=1e-12)  # a quotient


def test_fewer_iterations_cost_less() -> None:
    cost = TrainingCost(published_config("mamba2", "130m"))
    once = Evaluation.of(cost.config, 2048).total.forward / 2048
    assert cost.per_token(FREE) - cost.per_token(FREE, 10.5) == pytest.approx(18.5 * once, rel=1e-12)
    bounded, free = published_phases("mamba2")
    mean = cost.mean_per_token((bounded, free))
    assert mean == pytest.approx(0.8 * cost.per_token(bounded) + 0.2 * cost.per_token(free), rel=1e-12)


def test_the_utilisation_that_a_slow_share_leaves() -> None:
    model = PublishedCost("mamba2", "130m", 2048)
    share = model.cost(implicit=False).mixing_share()
    slower = Device(peak=165e12)
    assert model.ceiling(slower, implicit=False) == 1
    assert model.ceiling(Device(), implicit=False) == pytest.approx(
        1 / (1 + share * (989 / 165 - 1)), rel=1e-12
    )
    assert PublishedCost("llama", "130m", 2048).ceiling(Device(), implicit=True) == 1


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda cost: cost.per_token(), "phase is None"),
        (lambda cost: cost.per_token(FREE, 30), "iterations is 30; give a mean from 1 to the limit"),
        (lambda cost: Evaluation.of(cost.config, 0), "length is 0"),
        (lambda cost: Evaluation.of(published_config("llama", "130m"), 0), "length is 0"),
        (lambda cost: WeightMemory.of(cost.config, 0, sharded=True), "processes is 0"),
        (lambda cost: Activations.of(cost.config, 8, phantom_steps=0), "phantom_steps is 0"),
        (lambda cost: main(["--utilisation", "0"]), "utilisation is 0.0"),
        (lambda cost: main(["--tokens", "-1"]), "tokens is -1"),
        (lambda cost: main(["--length", "0"]), "length is 0"),
        (lambda cost: main(["--processes", "0"]), "processes is 0"),
    ],
)
def test_faults_are_one_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call(TrainingCost(published_config("mamba2", "130m")))
