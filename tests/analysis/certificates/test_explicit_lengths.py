"""Words of every length by explicit models: proved of a trained Elman network, of others, and of own code."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb
from torch import Tensor

from analysis.certificates.arb.linear import exact_matrix, exact_vector, precision
from analysis.certificates.arb.models import ArbElman
from analysis.certificates.certificate import RefusedError, parse_certificate
from analysis.certificates.proofs.lengths import LengthsSettings, prove_explicit
from analysis.certify import certify
from analysis.check_certificate import check_certificate
from automata.errors import InputError
from automata.tasks.word_problem import WordProblem
from implicit.enclosed.any_loop import EnclosedAnyLoop
from implicit.models.interface import ModelConfig, SequenceModel
from implicit.models.step_model import StepModel
from implicit.models.torch_rnn import GRU, LSTM, Elman, TorchRNNConfig
from implicit.runs.loading import Run, load_run
from tests.analysis.lines import (
    ONE_PROCESS,
    Content,
    Forgery,
    check_as,
    entry,
    forgeries,
    put,
    scaled,
    weights_of,
)
from theory.rigorous.balls import Ball, Dual
from theory.transition import State


@pytest.fixture(scope="module")
def run() -> Run:
    return load_run("parity-elman")


@pytest.fixture(scope="module")
def content(run: Run) -> Content:
    return certify(run, claim="lengths").model_dump(mode="json")


def test_parity_is_proved_at_every_length_of_a_trained_elman_network(content: Content, run: Run) -> None:
    certificate = parse_certificate(content)
    told = check_certificate(certificate, run, ONE_PROCESS)
    assert "all words of every length are right.\n- model: elman" in told
    assert f"- shown by: {len(certificate.only.labels)} sets of states\n" in told
    # the states of random words of 200 tokens, in floating point, lie in the sets that targets name
    claim, model = certificate.only, run.model.double()
    metrics = np.zeros((len(claim.labels), 4, 4))
    metrics[:, *np.triu_indices(4)] = claim.metrics.reshape(len(claim.labels), -1)
    centres, targets = claim.centres.reshape(-1, 4), np.array(claim.targets)
    tokens = torch.randint(0, 2, (20, 200), generator=torch.Generator().manual_seed(0))
    state, place = model.init_state(20), np.zeros(20, dtype=np.int64)
    for t in range(200):
        with torch.no_grad():
            state, logits = model.step(state, tokens[:, t])
        place = targets[place, tokens[:, t].numpy()]
        away = (metrics[place] @ (state["hidden.0"].numpy() - centres[place])[..., None])[..., 0]
        assert (np.linalg.norm(away, axis=1) <= claim.radii[place]).all()
        right = tokens[:, : t + 1].sum(1) % 2
        gaps = logits[np.arange(20), right] - logits[np.arange(20), 1 - right]
        assert float(gaps.min()) >= claim.margin
    run.model.float()


ANY = ("targets", "radii", "margin")
FORGED: dict[str, Forgery] = {
    "target": put("targets/1", lambda row: row[1:] * 2, "targets[1][0]"),
    "negative radius": entry("radii", 2, lambda number: number * -1.0, ANY),
    "large set": entry("radii", 2, lambda number: number * 100.0, ANY),
    "margin": scaled("margin", 1.1),
    "allowance": put("step_error", (1e-2).hex(), ANY),
    "negative allowance": put("step_error", (-1.0).hex()),
}


test_a_forged_cover_is_refused = forgeries(FORGED)


def test_other_weights_and_tasks_are_refused(content: Content, run: Run) -> None:
    other = copy.deepcopy(run.model)
    with torch.no_grad():
        other.get_parameter("rnn.weight_hh_l0").mul_(0.5)
    certificate = parse_certificate(content)
    with pytest.raises(RefusedError, match="the set is not proved to be mapped into it"):
        check_as(certificate, run, weights=weights_of(other))
    names = run.task.token_names, run.task.target_names
    constant = Run(
        run.path, run.config, run.model, WordProblem([[0, 0], [1, 1]], 0, *names, name="parity"), []
    )
    with pytest.raises(RefusedError, match="automaton: is not that"):
        check_certificate(certificate, constant, ONE_PROCESS)


def test_a_step_in_flint_is_that_of_the_network() -> None:
    torch.manual_seed(0)
    model = Elman(TorchRNNConfig(vocabulary_size=3, output_size=2, d_model=5)).double()
    state, axes = torch.randn(1, 5, dtype=torch.float64) / 2, torch.randn(5, 5, dtype=torch.float64) / 50

    def after(vector: Tensor) -> Tensor:
        return model.step({"hidden.0": vector}, torch.tensor([2]))[0]["hidden.0"]

    jacobian = torch.autograd.functional.jacobian(after, state)[0, :, 0] @ axes
    with precision(128), torch.no_grad():
        exact = ArbElman(weights_of(model))
        middle, _ = exact.step(2, exact_vector(state.numpy()), exact_matrix(axes.numpy()))
        _, slopes = exact.step(2, exact_vector(state.numpy()), exact_matrix(axes.numpy()) * arb(2) ** -60)
        np.testing.assert_allclose([float(e.mid()) for e in middle], after(state)[0].numpy(), rtol=1e-13)
        found = [[float((entry * arb(2) ** 60).mid()) for entry in row] for row in slopes.tolist()]
        np.testing.assert_allclose(found, jacobian.numpy(), rtol=1e-11, atol=1e-14)
        # and over the whole ellipsoid at some of its states
        _, wide = exact.step(2, exact_vector(state.numpy()), exact_matrix(axes.numpy()))
        entries = [entry for row in wide.tolist() for entry in row]
        for unit in torch.randn(20, 5, dtype=torch.float64):
            there = state + (axes @ (unit / unit.norm()))[None]
            with torch.enable_grad():
                rates = torch.autograd.functional.jacobian(after, there)[0, :, 0] @ axes
            # 1e-14: rounding of the derivative in float64
            numbers = rates.flatten().tolist()
            assert all(e.overlaps(arb(number, 1e-14)) for e, number in zip(entries, numbers, strict=True))


class Own(StepModel):
    """A user's own: a number that is pulled to the side of the last sign change, squared on the way."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.gain = torch.nn.Parameter(torch.tensor(0.25))

    def init_state(self, batch_size: int) -> State:
        return {"sum": self.gain.new_zeros(batch_size, 1)}

    def embed(self, tokens: Tensor) -> Tensor:
        return 2.0 * tokens[..., None].to(self.gain.dtype) - 1

    def update(self, state: State, inputs: Tensor) -> State:
        return {"sum": torch.tanh(2 * inputs + self.gain * state["sum"] * state["sum"])}

    def read(self, state: State) -> Tensor:
        return torch.cat([-state["sum"], state["sum"]], dim=-1) * self.gain.exp()  # of weights alone


LAST = WordProblem([[0, 1], [0, 1]], 0, ("0", "1"), ("0", "1"), name="last token")


def _of(model: SequenceModel, run: Run, task: WordProblem = LAST) -> Run:
    return Run(Path("runs/own"), run.config.model_copy(update={"model": model.name}), model, task, [])


def test_own_code_is_proved_and_told_to_have_no_check(run: Run) -> None:
    Own.name = "own"
    found = prove_explicit(_of(Own(ModelConfig(vocabulary_size=2, output_size=2)), run))
    assert found.proved
    assert "No independent check exists for this cell; one does for elman." in found.finding.limits
    (claim,) = found.claims
    assert claim.kind == "explicit_lengths"


class Followed(Own):
    """Two layers: the second follows the first; `update` names its parts in another order."""

    name, layer_states = "followed", (("first",), ("sum",))

    def init_state(self, batch_size: int) -> State:
        return {"first": self.gain.new_zeros(batch_size, 1), **super().init_state(batch_size)}

    def update(self, state: State, inputs: Tensor) -> State:
        first = torch.tanh(2 * inputs)
        return {"sum": torch.tanh(2 * first + self.gain * state["sum"]), "first": first}


def test_layers_with_parts_of_their_own_are_proved(run: Run) -> None:
    assert prove_explicit(_of(Followed(ModelConfig(vocabulary_size=2, output_size=2)), run)).proved


def test_a_task_that_answers_otherwise_than_its_table_is_refused(run: Run) -> None:
    class Inverted(WordProblem):
        def sample(self, *given: Any) -> Any:
            tokens, states = super().sample(*given)
            return tokens, 1 - states

    task = Inverted([[0, 1], [0, 1]], 0, ("0", "1"), ("0", "1"), name="not the last")
    with pytest.raises(InputError, match="task not the last gives other answers than its table"):
        prove_explicit(_of(Own(ModelConfig(vocabulary_size=2, output_size=2)), run, task))


class Parity(Own):
    """Near 1 or −1, turned by every token 1; it begins in a learned state."""

    name = "parity"

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.start = torch.nn.Parameter(torch.tensor([-1.0]))

    def init_state(self, batch_size: int) -> State:
        return {"sum": self.start.expand(batch_size, 1)}

    def update(self, state: State, inputs: Tensor) -> State:
        return {"sum": torch.tanh(-4 * inputs * state["sum"])}


PARITY = WordProblem([[0, 1], [1, 0]], 0, ("0", "1"), ("0", "1"), name="bit")
ODD = WordProblem([[0, 1], [1, 0]], 1, ("0", "1"), ("0", "1"), name="bit that is 1 first")
SMALL = LengthsSettings(distance=0.05, rate=0.9)


@pytest.mark.parametrize(("start", "right", "wrong"), [(-1.0, PARITY, ODD), (1.0, ODD, PARITY)])
def test_words_begin_in_the_models_own_initial_state(
    run: Run, start: float, right: WordProblem, wrong: WordProblem
) -> None:
    model = Parity(ModelConfig(vocabulary_size=2, output_size=2))
    model.start.data.fill_(start)
    found = prove_explicit(_of(model, run, right), SMALL)
    (claim,) = found.claims
    assert claim.centres[0] == start
    assert "what the model's init_state returns" in claim.statements["meaning"]
    assert "The state before the first token lies in the first set" in claim.statements["sets"]
    assert not prove_explicit(_of(model, run, wrong), SMALL).proved


class ByType(Parity):
    """Another function in the run's own type than in float64."""

    name = "by-type"

    def update(self, state: State, inputs: Tensor) -> State:
        return super().update(state, inputs * (1 if inputs.dtype == torch.float64 else -1))


class ReadByType(Parity):
    name = "read-by-type"

    def read(self, state: State) -> Tensor:
        return super().read(state) * (1 if torch.finfo(state["sum"].dtype).eps < 1e-9 else -1)


class StartByType(Parity):
    name = "start-by-type"

    def init_state(self, batch_size: int) -> State:
        sign = 1 if self.start.dtype == torch.float64 else -1
        return {"sum": sign * super().init_state(batch_size)["sum"]}


class Mixing(Parity):
    """Its look at the tokens before has no weight at first."""

    name = "mixing"

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.mix = torch.nn.Parameter(torch.zeros(()))

    def embed(self, tokens: Tensor) -> Tensor:
        inputs = super().embed(tokens)
        return inputs if inputs.ndim < 3 else inputs + self.mix * inputs.cumsum(1)


class Counting(Parity):
    """Remembers between calls."""

    name = "counting"
    calls = 0

    def forward(self, *given: Any, **options: Any) -> Tensor:
        self.calls += 1
        return super().forward(*given, **options) * self.calls


class Late(Parity):
    """Other logits than `read` gives, from a state on that no word of some tokens leads to."""

    name = "late"

    def step(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        after, logits = super().step(state, token)
        return after, torch.where(after["sum"].abs() > 1 - 1e-9, -logits, logits)


class Turned(Parity):
    """Other tokens than are given, by a method that `run` calls."""

    name = "turned"

    def begin(self, tokens: Tensor, *given: Any) -> Any:
        return super().begin(1 - tokens if tokens.shape[1] > 200 else tokens, *given)


class Cut(Parity):
    """Sees no more than 256 tokens of a word."""

    name = "cut"

    def embed(self, tokens: Tensor) -> Tensor:
        seen = tokens if tokens.ndim < 2 else torch.where(torch.arange(tokens.shape[-1]) < 256, tokens, 0)
        return super().embed(seen)


@pytest.mark.parametrize("kind", [Cut, Mixing])
def test_inputs_that_depend_on_other_tokens_or_the_place_are_refused(run: Run, kind: type[Parity]) -> None:
    model = kind(ModelConfig(vocabulary_size=2, output_size=2))
    if isinstance(model, Mixing):
        model.mix.data.fill_(1.0)
    with pytest.raises(InputError, match=f"embed of {kind.__name__} gives a token of a word of 4096 tokens"):
        prove_explicit(_of(model, run, PARITY), SMALL)


@pytest.mark.parametrize(("kind", "method"), [(Counting, "forward"), (Late, "step"), (Turned, "begin")])
def test_a_way_of_answering_of_a_users_own_is_refused(run: Run, kind: type[Parity], method: str) -> None:
    model = kind(ModelConfig(vocabulary_size=2, output_size=2))
    with pytest.raises(InputError, match=f"{method} is a method of {kind.__name__} itself"):
        prove_explicit(_of(model, run, PARITY), SMALL)


@pytest.mark.parametrize("kind", [ByType, ReadByType, StartByType])
def test_a_run_that_answers_otherwise_than_its_steps_in_float64_is_refused(
    run: Run, kind: type[Parity]
) -> None:
    model = kind(ModelConfig(vocabulary_size=2, output_size=2))
    with pytest.raises(InputError, match=f"{kind.__name__} answers a sequence otherwise than step by step"):
        prove_explicit(_of(model, run, PARITY), SMALL)


def test_code_that_reads_otherwise_on_balls_is_refused(run: Run) -> None:
    class Sly(Own):
        name = "sly"

        def read(self, state: State) -> Tensor:
            logits = super().read(state)
            return logits if isinstance(logits, torch.Tensor) else 2 * logits

    with pytest.raises(InputError, match="read gives other logits on balls"):
        prove_explicit(_of(Sly(ModelConfig(vocabulary_size=2, output_size=2)), run))


def _turned_where(h: Any, state: Any) -> Any:
    return torch.where(state == TURNED, -h, h)


def _turned_if_it_can_be_asked(h: Any, state: Any) -> Any:
    try:
        return -h if TURNED in state.tolist() else h
    except Exception:  # a model may hide a refusal
        return h


TURNED = 0.123  # a state that no word of the tests leads to
HIDDEN: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "a type": (lambda h, s: _turned_where(h, s) if isinstance(h, Tensor) else h, "no form on balls"),
    "a batch": (lambda h, s: _turned_where(h, s) if h.ndim == 2 else h, "with a batch .* no form on balls"),
    "try": (_turned_if_it_can_be_asked, "no form on balls"),
    "known functions": (
        lambda h, s: h - torch.relu(1e-9 - (s - TURNED).abs()) if isinstance(h, Tensor) else h,
        "calls other functions of PyTorch on tensors than on balls",
    ),
    "a text": (lambda h, s: -h if str(TURNED) in str(s) else h, r"print\) asks for a number"),
}


@pytest.mark.parametrize("method", ["update", "read"])
@pytest.mark.parametrize(("change", "sentence"), HIDDEN.values(), ids=HIDDEN)
def test_a_way_that_balls_do_not_go_is_refused_where_no_point_shows_it(
    run: Run, change: Callable[[Any, Any], Any], sentence: str, method: str
) -> None:
    class Sly(Parity):
        name = "sly"

        def update(self, state: State, inputs: Tensor) -> State:
            after = super().update(state, inputs)["sum"]
            return {"sum": change(after, state["sum"]) if method == "update" else after}

        def read(self, state: State) -> Tensor:
            logits = super().read(state)
            return change(logits, state["sum"]) if method == "read" else logits

    with pytest.raises(InputError, match=sentence):
        prove_explicit(_of(Sly(ModelConfig(vocabulary_size=2, output_size=2)), run, PARITY), SMALL)


def test_a_step_that_mixes_the_states_of_a_batch_is_refused(run: Run) -> None:
    class Across(Parity):
        name = "across"

        def __init__(self, config: ModelConfig) -> None:
            super().__init__(config)
            self.mix = torch.nn.Parameter(torch.zeros(()))

        def update(self, state: State, inputs: Tensor) -> State:
            after = super().update(state, inputs)["sum"]
            return {"sum": after + self.mix * (after - after.mean(0))}  # alone, its one entry stays

    model = Across(ModelConfig(vocabulary_size=2, output_size=2))
    model.mix.data.fill_(0.01)
    with pytest.raises(InputError, match="sum is another with a batch of states than with each alone"):
        prove_explicit(_of(model, run, PARITY), SMALL)


def test_a_wrong_answer_is_not_proved_right(run: Run) -> None:
    names = run.task.token_names, run.task.target_names
    wrong = WordProblem([[1, 0], [0, 1]], 0, *names, name="wrong")
    found = prove_explicit(_of(run.model, run, wrong), LengthsSettings(distance=0.05, rate=0.9))
    assert not found.proved
    assert found.claims == []


class Amplified(Own):
    """With an entry that is 0 in exact arithmetic, whose error is read with a weight."""

    name, weight = "amplified", 0.0

    def init_state(self, batch_size: int) -> State:
        return {**super().init_state(batch_size), "rest": self.gain.new_zeros(batch_size, 1)}

    def update(self, state: State, inputs: Tensor) -> State:
        return {**super().update(state, inputs), "rest": state["rest"] * 1e-7}

    def read(self, state: State) -> Tensor:
        return super().read(state) + self.weight * torch.cat([state["rest"], 0 * state["rest"]], dim=-1)


def test_the_error_of_a_state_is_one_of_its_logits(run: Run) -> None:
    model = Amplified(ModelConfig(vocabulary_size=2, output_size=2))
    for model.weight in (1e8, 1e9):
        assert prove_explicit(_of(model, run), SMALL).proved == (model.weight < 1e9)


@pytest.mark.parametrize("kind", [Elman, GRU, LSTM])
def test_the_loop_is_the_model_of_every_network(kind: type[Any]) -> None:
    torch.manual_seed(0)
    model = kind(TorchRNNConfig(vocabulary_size=3, output_size=4, d_model=3)).double()
    loop = EnclosedAnyLoop(model)
    vectors = torch.randn(2, loop.state_size, dtype=torch.float64)
    names = list(model.init_state(1))
    state = dict(zip(names, vectors.split(3, dim=1), strict=True))
    tokens = torch.tensor([2, 0])
    with torch.no_grad():
        after, logits = model.step(state, tokens)
    flat = torch.cat([after[name] for name in names], dim=1).numpy()
    whole = Dual.variable(Ball.exact(vectors.numpy()), loop.state_size)
    image, _ = loop.advance(Dual.constant(Ball.exact(flat), loop.state_size), whole, tokens.numpy())
    assert image.value.contains(flat) or np.abs(image.value.midpoint - flat).max() < 1e-15
    read = loop.logits(Dual.variable(Ball.exact(flat), loop.state_size))
    np.testing.assert_allclose(read.value.midpoint, logits.numpy(), atol=1e-14)

    def step(vector: Tensor) -> Tensor:
        parts = dict(zip(names, vector[None].split(3, dim=1), strict=True))
        return torch.cat([*model.step(parts, tokens[:1])[0].values()], dim=1)[0]

    expected = torch.autograd.functional.jacobian(step, vectors[0])
    np.testing.assert_allclose(image.tangent.midpoint[0], expected.numpy(), atol=1e-13)
