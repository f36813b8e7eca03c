"""Parts that the checkers share: sizes of states, the Newton map over a box, the words of verdicts."""

from typing import Any, cast

import numpy as np
import pytest
import torch
from flint import arb, arb_mat

from analysis.certificates.arb.linear import contracting_newton_map, precision
from analysis.certificates.certificate import Automaton, Claim, Context, RefusedError, sha256_of
from analysis.certificates.claims.words import check_answers_of
from analysis.certificates.naming import described
from automata.machines.mealy import MealyMachine
from automata.machines.named_dfas import flip_flop_dfa, modular_counter_dfa
from automata.monoids.groups import cyclic_group, quaternion_group
from automata.monoids.monoid import direct_product
from automata.tasks.registry import make_task
from automata.tasks.word_problem import WordProblem
from implicit.models.implicit_model import ImplicitConfig
from implicit.models.registry import ImplicitMamba2, ImplicitMamba2Config
from tests.analysis.lines import weights_of

PARITY = Automaton(initial_state=0, table=[[0, 1], [1, 0]])


def model_of(sizes: dict[str, int]) -> ImplicitMamba2:
    torch.manual_seed(0)
    whole = {"vocabulary_size": 2, "output_size": 2, "d_model": 4, "head_size": 4, "d_state": 2, **sizes}
    return ImplicitMamba2(ImplicitMamba2Config(**cast(Any, whole)))


def refusal(reason: str) -> RefusedError:
    return RefusedError("radius", reason)


def size_of_a_state(weights: dict[str, Any], config: ImplicitConfig) -> int:
    """Return the checker's, for a model of which answers are claimed."""
    head = {"model": "implicit-mamba2", "sizes": config.model_dump()}
    return check_answers_of(Context(weights, head, PARITY, lambda _: []))[1]


def test_the_size_of_a_state_and_the_layers_are_checked() -> None:
    for sizes in ({}, {"d_conv": 1}, {"groups": 2, "expand": 4}):
        model = model_of(sizes)
        count = sum(entry.numel() for entry in model.init_state(1).values())
        assert size_of_a_state(weights_of(model), model.config) == count
    two, explicit = model_of({"layers": 2}), weights_of(model)
    del explicit["latent_norm.weight"]
    for weights, config in ((weights_of(two), two.config), (explicit, model.config)):
        with pytest.raises(RefusedError, match=r"config\.sizes: are not those of a"):
            size_of_a_state(weights, config)


def test_the_newton_map_bounds_every_matrix_of_its_ball() -> None:
    rng = np.random.default_rng(0)
    for size, radius in ((1, 0.2), (3, 0.05), (6, 0.01)):
        middle = rng.normal(size=(size, size)) / size / 2
        with precision(128):
            ball = arb_mat([[arb(float(entry), radius) for entry in row] for row in middle])
            found = contracting_newton_map(ball, refusal)
        inverse = np.array([[float(entry) for entry in row] for row in found.inverse.tolist()])
        identity = np.eye(size)
        # P is the inverse of the midpoint, to float64 rounding of a well-conditioned matrix
        np.testing.assert_allclose(inverse @ (identity - middle), identity, atol=1e-13)
        for sign in (*rng.choice((-1.0, 1.0), size=(20, size, size)), np.ones((size, size))):
            defect = identity - inverse @ (identity - (middle + radius * sign))
            # 1e-13: float64 rounding of the products on this side
            entries = zip(found.defect.entries(), defect.ravel(), strict=True)
            assert all(abs(float(ours.mid()) - exact) <= float(ours.rad()) + 1e-13 for ours, exact in entries)
            assert np.abs(defect).sum(axis=1).max() <= float(found.kappa) + 1e-13
        # reached where all entries move outward together: ‖ |P| ‖_∞ times the radius of a row
        worst = radius * size * np.abs(inverse).sum(axis=1).max()
        assert float(found.kappa) == pytest.approx(worst, rel=1e-6)


def test_a_map_that_may_not_contract_is_refused() -> None:
    # 1 − A in [0.5 − r, 0.5 + r] with P = 2: the defect is at most 2 r, below 1 for r < 1/2 only
    contracting_newton_map(arb_mat([[arb(0.5, 0.49)]]), refusal)
    with pytest.raises(RefusedError, match="radius: the Newton map does not contract over it"):
        contracting_newton_map(arb_mat([[arb(0.5, 0.5)]]), refusal)
    with pytest.raises(RefusedError, match="radius: the derivative over it cannot be inverted"):
        contracting_newton_map(arb_mat([[1]]), refusal)
    with pytest.raises(RefusedError, match="radius: "):
        contracting_newton_map(arb_mat([[arb.nan()]]), refusal)


STATEMENTS = {
    "theorem1": "d22cbb8c635b3680",
    "explicit": "2ba851f31f2d5a2b",
    "executed": "1d3d519175151e42",
    "words": "ce993dd1d2ecb424",
    "lengths": "bc3a97823584a880",
    "starts": "b1c5455dd7607103",
    "explicit_lengths": "3358249ccbfe45ea",
}


def test_every_kind_has_its_words_here() -> None:
    assert set(STATEMENTS) == set(Claim.kinds)
    assert {"implicit-mamba2", "mamba2", "implicit-deltanet"} == set(Claim.kinds["theorem1"].models)


@pytest.mark.parametrize(("kind", "digest"), STATEMENTS.items(), ids=STATEMENTS)
def test_what_a_certificate_says_belongs_to_the_version_of_its_format(kind: str, digest: str) -> None:
    """Another meaning is a new version of the format."""
    model = "elman" if kind == "explicit_lengths" else "implicit-mamba2"
    statements = Claim.kinds[kind].stated({"model": model, "sizes": {"layers": 1}})
    assert sha256_of(statements)[:16] == digest


def test_every_spelling_of_an_automaton_is_described_alike() -> None:
    machine = make_task("S3").machine()
    again = np.random.default_rng(0).permutation(7)  # one more state, which no word reaches
    table = np.zeros((7, 6), dtype=int)
    table[again[:6]] = again[machine.table]
    other = described(MealyMachine(table, table, int(again[machine.initial])))
    assert other == described(machine).replace("6 of 6 states", "6 of 7 states")


@pytest.mark.parametrize(
    ("machine", "named"),
    [
        (make_task("S5-generators").machine(), "generate S5)"),
        (WordProblem.from_dfa(modular_counter_dfa(120)).machine(), "generate Z120)"),
        (WordProblem.from_monoid(quaternion_group()).machine(), "generate Q8)"),
        (WordProblem.from_monoid(direct_product(cyclic_group(2), cyclic_group(2))).machine(), "generate D2)"),
        (WordProblem.from_dfa(flip_flop_dfa()).machine(), "a monoid of 3 maps, which is no group)"),
        (WordProblem.from_dfa(modular_counter_dfa(1000)).machine(), "more than 720 maps of the states)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_group_is_named_by_what_it_is(machine: MealyMachine, named: str) -> None:
    assert named in described(machine)


def test_answers_that_are_not_the_states_have_a_hash_of_their_own() -> None:
    table = [[0, 1], [1, 0]]
    odd, never = MealyMachine(table, table), MealyMachine(table, [[0, 0], [0, 0]])
    assert "answers of SHA-256" not in described(odd)
    assert "answers of SHA-256" in described(never)
