"""Questions about models in memory: the same answers as of a run folder, and nothing on the disk."""

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from types import MethodType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import analysis
from analysis import questions
from analysis.check_certificate import CheckSettings, check_certificate
from analysis.framework.output import json_ready
from automata import make_task
from automata.errors import InputError
from implicit import GRU, LSTM, Elman, ImplicitLayer, Run, load_run, wrap
from implicit.models.interface import ModelOutput
from implicit.models.registry import MODELS
from implicit.models.torch_rnn import TorchRNNConfig
from tests.implicit.models.conftest import PlainGRU
from tests.refusals import refusals

SMALL: dict[str, dict[str, Any]] = {
    "jacobian": {"states": 2, "sequences": 2, "length": 6},
    "length_generalization": {"lengths": [4, 8], "sequences": 4},
    "extraction": {"sequences": 8, "length": 8, "fresh_words": 4},
}
OF_THE_RUN = {"run", "runs", "seconds", "training_length", "search"}


def without_names(numbers: Any) -> Any:
    """The numbers without what a model in memory does not know of itself."""
    if isinstance(numbers, Mapping):
        return {key: without_names(value) for key, value in numbers.items() if key not in OF_THE_RUN}
    return numbers


SIZES = TorchRNNConfig(vocabulary_size=2, output_size=2, d_model=4)


def lstm() -> Any:
    torch.manual_seed(0)
    return LSTM(SIZES)


@pytest.mark.parametrize("question", SMALL)
def test_the_answer_is_that_of_the_run_folder_and_nothing_is_written(
    question: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked: Any = questions.question_named(question)
    stored = load_run("parity-small")
    in_memory = Run.of(stored.model, stored.task, name=stored.name, length=stored.config.length)
    found = analysis.ask(question, in_memory, **SMALL[question])
    assert list(tmp_path.iterdir()) == []
    settings = asked.settings(**SMALL[question])
    expected = (
        asked.measure(stored, settings) if hasattr(asked, "measure") else asked.compare([stored], settings)
    )
    one, other = (without_names(json_ready(answer.numbers())) for answer in (found, expected))
    assert one == other


def test_what_is_written_names_the_model_and_no_seed(tmp_path: Path) -> None:
    found = analysis.ask("jacobian", lstm(), task="parity", out=tmp_path, **SMALL["jacobian"])
    run = json.loads((tmp_path / "jacobian.json").read_text())["run"]
    assert (run["name"], run["model"], run["training_length"], run["seed"]) == ("lstm", "lstm", None, None)
    assert found.run.title == "lstm on parity"
    assert (tmp_path / "jacobian.png").is_file()


def test_what_is_asked_is_a_copy_and_training_goes_on() -> None:
    model = lstm().train()
    run = Run.of(model, "parity")
    before = run.model(torch.tensor([[1, 0]]))
    with torch.no_grad():
        model.head.weight.zero_()
    assert model.training
    assert not run.model.training
    torch.testing.assert_close(run.model(torch.tensor([[1, 0]])), before, rtol=0, atol=0)


def test_a_certificate_of_a_model_in_memory_is_checked_against_it() -> None:
    stored = load_run("parity-small")
    run = Run.of(stored.model, make_task("parity"))
    certificate = analysis.certify.certify(run, claim="words", length=2)
    assert {"seed", "training_length"}.isdisjoint(certificate.run)
    assert "answers to all 6 words" in check_certificate(certificate, run, CheckSettings(processes=1))


def first(whole: Tensor) -> Tensor:
    return whole[0]


@pytest.mark.parametrize(
    ("name", "of", "anew"),
    [
        ("learned", None, False),
        ("learned", first, False),
        ("learned", torch.tanh, True),
        ("kept", None, False),
        ("kept", first, False),
    ],
)
def test_an_initial_state_stays_that_of_the_module(name: str, of: Any, anew: bool) -> None:
    def state(own: Any) -> dict[str, Tensor]:
        return {"h": of(getattr(own, name)) if of else getattr(own, name)}

    net = nn.Linear(3, 2, bias=False)
    net.learned = nn.Parameter(torch.zeros(1, 3))
    net.register_buffer("kept", torch.zeros(1, 3))
    step = lambda own, s, _: (s, own(s["h"].reshape(-1, 3)))  # noqa: E731
    model = wrapped(net, step, state if anew else state(net))
    weight = getattr(net, name)
    with torch.no_grad():
        weight.add_(1)
    for one in (model, copy.deepcopy(model).double()):
        expected = one.module(state(one.module)["h"].reshape(1, 3))
        assert torch.equal(one(torch.tensor([[0]]))[0], expected)
    if name == "learned":
        assert torch.autograd.grad(model.init_state(1)["h"].sum(), weight)[0].any()


def scanned(self: Any, tokens: Tensor, state: Any = None, solve: Any = None, *, lengths: Any = None) -> Any:
    tokens, state, mask = self.begin(tokens, state, lengths)
    logits = []
    for t in range(tokens.shape[1]):
        after, answer = self.step(state, tokens[:, t])
        real = torch.ones(len(tokens), dtype=torch.bool) if mask is None else mask[:, t]
        state = {name: torch.where(real[:, None], part, state[name]) for name, part in after.items()}
        logits.append(answer * real[:, None])
    return ModelOutput(torch.stack(logits, 1), state)


@pytest.mark.parametrize(
    ("kind", "step", "inherited"),
    [
        (Elman, lambda own, state, token: (state, 100 + Elman.step(own, state, token)[1]), "read"),
        (GRU, lambda own, state, _: (state, own.read(state)), "transitions"),
        (MODELS["mamba2"], lambda own, state, token: (state, torch.zeros(len(token), 2)), "transitions"),
    ],
)
def test_a_model_with_another_step_than_it_is_read_by_is_refused(
    kind: Any, step: Any, inherited: str
) -> None:
    own = type("Own", (kind,), {"step": step, "run": scanned})
    sizes = {"vocabulary_size": 2, "output_size": 2, "d_model": 8}
    sizes |= {"head_size": 4} if kind is MODELS["mamba2"] else {}
    with pytest.raises(
        InputError, match=f"^{inherited} at token 0.* of Own is not that of its step; change both, or"
    ):
        own(**sizes)
    type("Growing", (own,), {"state_grows": True})(**sizes)  # states of several sizes are not compared


def test_a_model_whose_call_has_a_hook_is_refused() -> None:
    model = load_run("parity-elman").model
    model.register_forward_hook(lambda _module, _given, logits: logits.flip(-1))
    with pytest.raises(InputError, match="model has hooks, and questions run it rather than call it"):
        Run.of(model, "parity")


PAIR = {"a": torch.zeros(1), "b": torch.zeros(1)}


def coupled(_: nn.Module, state: Mapping[str, Tensor], token: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    a = torch.tanh(state["a"] + state["b"] + token[:, None])
    return {"a": a, "b": 0.5 * state["b"] + a}, a


def stacked(gru: nn.Module, state: Mapping[str, Tensor], token: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    after = gru(token[None, :, None].to(state["a"]), torch.stack([state["a"], state["b"]]))[1]
    return {"a": after[0], "b": after[1]}, after[1]


def wrapped(module: Any, step: Any, state: Any = None, **more: Any) -> Any:
    return wrap(module, step, state or {"h": torch.zeros(1)}, vocabulary_size=2, **more)


HIDDEN = {"hidden.0": torch.zeros(4)}
NORM = nn.BatchNorm1d(1)
IDENTITY = nn.Identity()
RIGHT = {
    "a bound method of three": lambda: wrapped(
        net := PlainGRU(2, 2, 4), MethodType(lambda self, m, s, t: self.one(s, t), net), HIDDEN
    ),
    "noise of training only": lambda: wrapped(
        nn.Sequential(nn.Dropout(), nn.BatchNorm1d(1)), lambda m, s, t: (s, m(s["h"] + t[:, None]))
    ),
    "attention": lambda: wrapped(
        nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True),
        lambda m, s, t: (s, m(s["h"], s["h"], s["h"])[0][:, 0] + t[:, None]),
        {"h": torch.ones(3, 4)},
    ),
    "layers of one network of torch": lambda: wrapped(
        nn.GRU(1, 2, num_layers=2), stacked, {name: torch.zeros(2) for name in "ab"}, layers=[("a",), ("b",)]
    ),
    "layers in a list": lambda: wrapped(Listed(), lambda m, s, t: (s, m.layers[0](s["h"] + t[:, None]))),
}


class Listed(nn.Module):
    """Holds its layer in a list of Python, where PyTorch finds no parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(1, 2)]


@pytest.mark.parametrize("make", RIGHT.values(), ids=RIGHT)
def test_steps_that_are_functions_in_evaluation_are_taken(make: Any) -> None:
    torch.manual_seed(0)
    model = make()
    copied = copy.deepcopy(model).eval()
    expected = copied(torch.tensor([[1, 0]]))
    with torch.no_grad():
        for part in model.module.modules():
            for weight in part._parameters.values():
                if weight is not None:
                    weight.zero_()
    torch.testing.assert_close(copied(torch.tensor([[1, 0]])), expected, rtol=0, atol=0)


OTHER_WEIGHTS = "step uses weights that its first argument does not hold"
NOT_A_FUNCTION = "step gives other results when it is called again"
MIXED = "step gives a sequence other results in a batch than alone"
module: Any = nn.LSTM(2, 2)


test_bad_input_is_refused = refusals(
    (lambda: analysis.ask("jacobian", lstm()), "task is missing; .* as in task='parity'"),
    (lambda: analysis.ask("jacobian", module, task="parity"), r"model is .*; .* implicit.wrap\(module"),
    (lambda: analysis.ask("jacobian", lstm(), task="S3"), "vocabulary_size of the model is 2, .* S3 is 6"),
    (lambda: analysis.ask("jacobian", lstm(), task="partiy"), "did you mean 'parity'"),
    (lambda: analysis.ask("convergence", lstm(), task="parity"), "lstm, which has no fixed"),
    (
        lambda: analysis.ask("length_generalization", lstm(), lstm(), task="parity"),
        "lstm is given twice; .*Run.of another name",
    ),
    (lambda: Run.of(lstm(), "parity", name="a/b"), "name is 'a/b'; give one that a folder can have"),
    (lambda: Run.of(lstm(), "parity", length=0), "length is 0"),
    (lambda: wrap(IDENTITY, len, {}), "wrap: missing a required argument: 'vocabulary_size'; it takes"),  # type: ignore[arg-type, call-arg]
    (lambda: analysis.ask("jacobian", lstm(), task="parity", out=3), "out is 3; give the path"),  # type: ignore[arg-type]
    (lambda: ImplicitLayer("mamba2", 8), "one of cells is 'mamba2'; give a Cell"),  # type: ignore[arg-type]
    (lambda: wrap(len, len, {}, vocabulary_size=2), "module is .* give a torch.nn.Module"),  # type: ignore[arg-type]
    (
        lambda: wrapped(IDENTITY, PlainGRU(2, 2).one),
        r"step raises TypeError \(.*step\(module, state, token\)",
    ),
    (lambda: wrapped(IDENTITY, lambda m, s, t: (s, t), {"h": torch.zeros(1, 1)}), "wrap takes a state"),
    (lambda: wrapped(net := PlainGRU(2, 2, 4), lambda _, s, t: net.one(s, t), HIDDEN), OTHER_WEIGHTS),
    (lambda: wrapped(IDENTITY, lambda m, s, t: (s, NORM(s["h"] + t[:, None]))), OTHER_WEIGHTS),
    # buffers of the original module
    (lambda: wrapped(NORM, lambda m, s, t: (s, s["h"] + NORM.running_mean + t[:, None])), OTHER_WEIGHTS),
    # dropout in evaluation, NumPy's noise, and a state that the module keeps
    (
        lambda: wrapped(IDENTITY, lambda m, s, t: (s, nn.functional.dropout(s["h"] + t[:, None], 0.1))),
        NOT_A_FUNCTION,
    ),
    (
        lambda: wrapped(IDENTITY, lambda m, s, t: (s, t[:, None] + np.random.default_rng().random())),
        NOT_A_FUNCTION,
    ),
    (lambda: wrapped(NORM, lambda m, s, t: (s, m.num_batches_tracked.add_(1) + t[:, None])), NOT_A_FUNCTION),
    # rows of the logits, and of the state
    (lambda: wrapped(IDENTITY, lambda m, s, t: (s, (t - t.float().mean())[:, None])), MIXED),
    (lambda: wrapped(IDENTITY, lambda m, s, t: ({"h": s["h"].cumsum(0) + t[:, None]}, s["h"])), MIXED),
    (
        lambda: wrapped(
            net := nn.Linear(1, 2), lambda m, s, t: (s, m(s["h"][:, :1])), {"h": torch.tanh(net.bias)}
        ),
        "state entry 'h' requires a gradient .*; give the parameter",
    ),
    (lambda: wrapped(IDENTITY, lambda *_: None), r"step returns None; return \(state, logits\)"),
    (lambda: wrapped(IDENTITY, lambda m, s, t: ({}, t[:, None])), "state entry 'h' .* is missing"),
    (lambda: wrapped(IDENTITY, lambda m, s, t: (s, t)), r"have shape \[2\]; return \[batch, answers\]"),
    (
        lambda: wrapped(IDENTITY, lambda m, s, t: (s, t[:, None]), layers=[["g"]]),
        "layers names 'g'; give entries of state, h",
    ),
    (lambda: wrapped(IDENTITY, coupled, PAIR, layers=["ab"]), "layers holds 'ab'; give a tuple"),
    (lambda: wrapped(IDENTITY, coupled, PAIR, layers=[("a", "b"), ("b",)]), "layers names 'b' twice"),
    (lambda: wrapped(IDENTITY, coupled, PAIR, layers=[("a",)]), "layers leaves out 'b', which step carries"),
    (lambda: wrapped(IDENTITY, coupled, PAIR, layers=[("a",), ("b",)]), "layers parts a from b, and each"),
)


class Named(LSTM):
    """A subclass of one's own that has its parent's name."""


def test_a_subclass_does_not_pass_for_its_parent() -> None:
    run = Run.of(Named(SIZES), "parity")
    assert (run.config.model, run.name) == ("Named", "Named")


class Counting(nn.Module):
    """A GRU beside a clock, one number a sequence, and a flag: parts that have no derivative."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(2, 3), nn.Linear(3, 2)

    def one(self, state: Mapping[str, Tensor], token: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        h = self.cell(nn.functional.one_hot(token, 2).to(state["h"]), state["h"])
        return {"h": h, "clock": state["clock"] + 1, "flag": state["flag"] | (token == 1)}, self.head(h)


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # GRUCell below torch.func
@pytest.mark.parametrize("question", ["jacobian", "extraction", "error_control", "mechanism"])
def test_states_may_hold_clocks_and_flags(question: str) -> None:
    begun = {"h": torch.zeros(3), "clock": torch.tensor(0), "flag": torch.tensor(False)}
    model = wrap(Counting(), Counting.one, begun, vocabulary_size=2, layers=[["h"]])
    few = {"sequences": 8, "length": 32, "pairs": 4, "follow": 4} if question == "error_control" else {}
    answer = analysis.ask(question, model, task="parity", **SMALL.get(question, few))
    assert str(answer).startswith("Counting: ")
