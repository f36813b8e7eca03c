"""Wrong input to functions, in a Python shell: each is refused in one sentence with field, value and remedy.

A row is the call and the words that the sentence must hold: what was wrong, its value, what to do. Commands
have their tables in tests/implicit, tests/analysis and tests/paper_figures.
"""

import math
import os
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest
import torch
from pydantic import BaseModel, ValidationError
from torch import Tensor

import analysis.agreement
import analysis.belief
import analysis.convergence
import analysis.error_control
import analysis.extraction
import analysis.jacobian
import analysis.length_generalization
import analysis.mechanism
from analysis.framework.visited_states import in_double_precision, visited_states
from analysis.questions import QUESTIONS
from automata import (
    DFA,
    BallPuzzle,
    Batch,
    MarginalFilter,
    Monoid,
    PartiallyObserved,
    ProbabilisticAutomaton,
    ProgramGrammar,
    ReplLanguage,
    SessionFormat,
    SmallPrograms,
    SwappingBalls,
    TextFile,
    WordProblem,
    circuit_class,
    count_words,
    cyclic_group,
    hidden_permutations,
    lazy_swaps,
    make_task,
    marginal_scope,
    modular_counter_dfa,
    monoid_dfa,
    noisy_parity,
    parity_dfa,
    permutation_group,
    product,
    regular_expression_dfa,
    run_program,
    statement_bound,
    symmetric_group,
    task_from,
    unknown_coin,
)
from automata.errors import InputError
from automata.programs import PhraseTokenizer, sample_swaps, verify_balls, verify_programs
from automata.repl import (
    ReplTokenizer,
    action_permutations,
    check_with_interpreter,
    last_reveal_accuracy,
    record,
    repl_trace,
    sample_sessions,
    write_text,
)
from automata.tasks.audit import shortcut_audit
from implicit import (
    LSTM,
    LSTMConfig,
    Mamba2Config,
    Run,
    SequenceModel,
    Solve,
    TrainConfig,
    build_model,
    evaluate,
    load_run,
    recipe,
    train,
)
from implicit.config.curriculum import Curriculum
from implicit.config.run import EvaluationConfig, InitialWeights, OptimizerConfig
from implicit.gradients import FactoredImplicit, Phantom, Unrolled
from implicit.modes import Windowed
from theory import (
    State,
    Transition,
    check_theorem1,
    full_state_jacobian,
    latent_jacobian,
    layer_jacobians,
    solve_fixed_point,
)
from theory.testing import (
    NotApplicableError,
    assert_contractive,
    assert_fixed_point,
    assert_kind,
    assert_modes_agree,
    assert_theorem1,
)

TOKENS = torch.tensor([[0, 1, 1], [1, 0, 1]])
PARITY = make_task("parity")
GENERATOR = np.random.default_rng(0)
SIMULTANEOUS, SEQUENTIAL = Solve("simultaneous"), Solve("sequential")


@cache
def run() -> Run:
    return load_run("parity-small")


def model() -> SequenceModel:
    return run().model


@cache
def analysed() -> tuple[Transition, list[State]]:
    """The transition of a token in float64, and two states that the model visits."""
    double = in_double_precision(model())
    return double.transition(1), [visited.state for visited in visited_states(double, TOKENS, 2)]


def state(**parts: Tensor) -> State:
    return {**model().init_state(2), **parts}


def written(self_map: Callable[..., object], update: Callable[..., object] | None = None) -> object:
    """The check of Theorem 1 on a Φ, and a G, written by a user."""
    update = update or (lambda z, s: {"h": s["h"] + z})
    transition = Transition(self_map, update, 2, (("h",),))
    return check_theorem1(transition, [{"h": torch.ones(2).double()}])


def lstm() -> SequenceModel:
    return build_model("lstm", {"d_model": 4}, PARITY)


Row = tuple[Callable[[], object], Sequence[str]]
WIDE = torch.zeros(1, 1, dtype=torch.long).expand(10**7, 10**7)


# Types are wrong on purpose all over these tables.
AUTOMATA: list[Row] = [
    (lambda: make_task(3), ["task is 3", "'parity'"]),
    (lambda: task_from([]), ["task is []", "give a Task"]),
    (lambda: SwappingBalls(5.0), ["balls is 5.0", "whole number"]),
    (lambda: SwappingBalls(5, "ten"), ["swaps is 'ten'", "whole"]),
    (lambda: SwappingBalls(5, swapped=["ball"]), ["['ball']", "place"]),
    (lambda: BallPuzzle(5, (3,), 1), ["swaps holds 3", "pairs"]),
    (lambda: BallPuzzle(5, (("a", "b"),), 1), ["swaps", "'a'", "whole number"]),
    (lambda: BallPuzzle(5, 3, asked=1), ["swaps is 3", "pairs"]),
    (lambda: sample_swaps(5, "x", GENERATOR), ["shape is 'x'", "(3,)"]),
    (lambda: sample_swaps(5, (-1,), GENERATOR), ["shape is -1", "at least 0"]),
    (lambda: sample_swaps(5, (10**15,), GENERATOR), ["GiB of memory", "smaller"]),
    (lambda: PhraseTokenizer(3), ["phrases is 3", "texts"]),
    (lambda: PhraseTokenizer("ab").encode(3), ["text is 3", "tokens"]),
    (lambda: verify_programs([3]), ["text is 3", "program"]),
    (lambda: verify_balls([3], 5), ["text is 3", "puzzle"]),
    (lambda: SmallPrograms(variables="xyz"), ["variables is 'xyz'"]),
    (lambda: run_program("x = 1", "10"), ["limit is '10'", "whole number"]),
    (lambda: statement_bound(b"x = 1"), ["source is b'x = 1'", "text"]),
    (
        lambda: ProgramGrammar().sample(10**20, GENERATOR),
        ["100000000000000000000 statements", "GiB of memory", "fewer"],
    ),
    (
        lambda: SmallPrograms(statements=10**20).batch(1, 8, GENERATOR),
        ["100000000000000000000 statements", "GiB of memory"],
    ),
    (lambda: ProgramGrammar().sample(0.5, GENERATOR), ["statements is 0.5"]),
    (lambda: PARITY.batch(2, 2.5, GENERATOR), ["length is 2.5", "whole number"]),
    (lambda: PARITY.batch(2, 3, 0), ["rng is 0", "numpy.random.default_rng(0)"]),
    (lambda: PARITY.batch(2, 3, torch.Generator()), ["rng is of type Generator", "numpy.random"]),
    (
        lambda: PARITY.batch(10**6, 10**9, GENERATOR),
        ["length 1000000000", "GiB of memory", "available", "give a shorter length"],
    ),
    (lambda: Monoid([[0, 1], [1]]), ["[[0, 1], [1]]", "rows"]),
    (lambda: Monoid([[0.5, 1], [1, 0]]), ["float64", "integers"]),
    (lambda: permutation_group(5), ["generators is 5", "permutations"]),
    (lambda: permutation_group([1, 2]), ["is 1", "(2, 1, 3)"]),
    (lambda: symmetric_group("three"), ["degree is 'three'", "whole number"]),
    (lambda: cyclic_group(None), ["order is None", "whole number"]),
    (lambda: parity_dfa().accepts(3), ["word is 3", "list"]),
    (lambda: parity_dfa().accepts([1]), ["1 at position 0", "'0', '1'"]),
    (lambda: DFA(("a",), ("1",), [["a"]], "a", ()), ["transitions is [['a']]", "dictionary"]),
    (lambda: DFA(("a",), ("1",), {}, ["a"], ()), ["initial", "['a']", "names"]),
    (lambda: DFA(("a",), ("1",), {}, "a", None), ["accepting is None", "list"]),
    (lambda: DFA(("a",), ("1",), {"a": None}, "a", ()), ["transitions of 'a' is None", "dictionary"]),  # type: ignore[dict-item]
    (lambda: shortcut_audit(PARITY, 10**400), ["GiB of memory", "shorter"]),
    (lambda: count_words(symmetric_group(3), 2), ["dfa is of type Monoid", "DFA"]),
    (lambda: count_words(parity_dfa(), 2.5), ["length is 2.5", "whole number"]),
    (lambda: count_words(parity_dfa(), 10**30), ["GiB of memory", "shorter"]),
    (lambda: modular_counter_dfa("three"), ["modulus is 'three'", "whole number"]),
    (lambda: modular_counter_dfa(2**63), ["GiB of memory", "smaller"]),
    (lambda: product(parity_dfa(), parity_dfa(), np.zeros(2)), ["operation", "known: difference"]),
    (lambda: circuit_class("S3"), ["subject is 'S3'", "Monoid"]),
    (lambda: Batch([[0, 1], [0]], [[0]], [[1]]), ["tokens", "one length"]),
    (lambda: PARITY.part(np.zeros(2)), ["part", "known: test"]),
    (lambda: TextFile(None), ["path is None", "give"]),
    (lambda: TextFile("a\0b"), ["path", "file system"]),
    (lambda: TextFile("\ud800"), ["path", "file system"]),
    (lambda: ProbabilisticAutomaton(3, [1], {"a": [[1]]}), ["states is 3"]),
    (lambda: PartiallyObserved(parity_dfa()), ["automaton is of type DFA", "ProbabilisticAutomaton"]),
    (lambda: MarginalFilter(None, ["a"]), ["automaton is None"]),
    (lambda: WordProblem([[0]], "q", "a", ["q"]), ["initial_state is 'q'", "whole number"]),
    (lambda: shortcut_audit("parity"), ["task is 'parity'", "Task"]),
    (
        lambda: ProbabilisticAutomaton(["a"], [1], {"f": [[1]]}, {"look": None}),  # type: ignore[dict-item]
        ["reveals of 'look' is None", "list"],
    ),
    (lambda: monoid_dfa(symmetric_group(3), "ab"), ["generators is 'a'", "whole number"]),
    (lambda: shortcut_audit(PARITY, windows=["all"]), ["'all'", "whole number"]),
    (lambda: SessionFormat(3, reveal=np.zeros(2)), ["reveal is of type"]),
    (lambda: SessionFormat(3, hidden="if", probability="half"), ["probability is 'half'", "give a number"]),
    (lambda: sample_sessions(SessionFormat(), 1, 0, commands=1), ["rng is 0", "default_rng"]),
    (lambda: sample_sessions("x", 1, GENERATOR, commands=1), ["form is 'x'", "SessionFormat"]),
    (
        lambda: sample_sessions(SessionFormat(), 1, GENERATOR, commands=10**12),
        ["1000000000000 actions", "GiB of memory", "fewer"],
    ),
    (lambda: last_reveal_accuracy(SessionFormat(3), [3]), ["counts holds 3", "pairs"]),
    (lambda: last_reveal_accuracy(SessionFormat(3), 3), ["counts is 3"]),
    (lambda: last_reveal_accuracy("x", [(3, 1)]), ["form is 'x'"]),
    (lambda: repl_trace(None, (1, 2), []), ["permutations is None", "tuples"]),
    (lambda: repl_trace([(2, 1)], "ab", [None]), ["values is 'a'", "whole number"]),
    (lambda: repl_trace(["ba"], (1, 2), [None]), ["'b'", "whole number"]),
    (lambda: repl_trace([3], (1, 2), [None]), ["is 3", "1 … 2"]),
    (lambda: repl_trace([(2, 1)], (1, 2), [7]), ["reveals holds 7", "a, b"]),
    (lambda: SessionFormat.from_fields(None), ["is None", "by name"]),
    (lambda: check_with_interpreter(3), ["session is 3", "trace"]),
    (lambda: check_with_interpreter(">>> a = 1", "x"), ["seed is 'x'", "whole"]),
    (lambda: ReplTokenizer(3).encode(3), ["text is 3", "session"]),
    (lambda: ReplTokenizer(3).decode([-1]), ["token is -1", "at least 0"]),
    (lambda: ReplTokenizer(3).decode([99]), ["token is 99", "0 … 14"]),
    (lambda: ReplTokenizer(3, [3]), ["signs: one entry is 3", "texts"]),
    (lambda: action_permutations("S3", "x"), ["variables is 'x'", "whole number"]),
    (lambda: record(3), ["trace is 3", "ReplTrace"]),
    (lambda: write_text(3, []), ["path is 3", "file"]),
    (lambda: write_text(os.devnull, 3), ["traces is 3", "several"]),
    (lambda: sample_sessions(SessionFormat(), 1, GENERATOR, commands=1).trace(1), ["number is 1", "0 … 0"]),
    (lambda: ReplLanguage(3).beliefs(np.zeros((2, 3))), ["tokens holds float64", "integers"]),
    (
        lambda: ProbabilisticAutomaton(["p", "q"], [1, 0], {}, {"look": [1, "1"]}),
        ["'look' shows 1 and '1'", "one name, '1'", "different names"],
    ),
    (lambda: ProbabilisticAutomaton(["a"], initial=[1], actions={"flip": "x"}), ["'flip'", "'x'", "[1, 1]"]),
    (lambda: hidden_permutations(2, {"swap": {(2, 2): 1.0}}), ["'swap'", "(2, 2)", "permutations of 1 … 2"]),
    (lambda: hidden_permutations(2, {"swap": {"21": 1.0}}), ["'swap'", "21", "permutations of 1 … 2"]),
    (lambda: hidden_permutations(2, {"swap": {(2, 1): 0.5}}), ["'swap'", "0.5", "sum 1"]),
    (
        lambda: hidden_permutations(2, {"turn": [(2, 1)]}),  # type: ignore[dict-item]
        ["action 'turn' is [(2, 1)]", "mapping from permutations"],
    ),
    (lambda: hidden_permutations(2, [(2, 1)]), ["actions is [(2, 1)]", "mapping"]),
    (lambda: hidden_permutations(2, {"turn": {(2, 1): "1"}}), ["(2, 1) in action 'turn' is '1'", "number"]),  # type: ignore[dict-item]
    (lambda: lazy_swaps("3"), ["variables is '3'", "whole number"]),
    (lambda: lazy_swaps(3, ".5"), ["probability is '.5'", "number"]),
    (lambda: lazy_swaps(3, swaps=3), ["swaps is 3", "pairs (i, j)"]),
    (lambda: lazy_swaps(3, swaps=[(1, 2, 3)]), ["swaps holds (1, 2, 3)", "pairs"]),
    (lambda: lazy_swaps(3, swaps=["ab"]), ["swaps holds 'ab'", "pairs"]),
    (lambda: noisy_parity("x"), ["failure_probability is 'x'", "number"]),
    (lambda: unknown_coin(None), ["heads_probability is None", "give a number"]),
    (lambda: unknown_coin(60), ["heads_probability is 60", "[0, 1]"]),
    (
        lambda: marginal_scope(hidden_permutations(2, {}), ["variable 1"], "long"),
        ["length is 'long'", "whole number"],
    ),
    (lambda: regular_expression_dfa(None), ["expression is None", "(ab|ba)*"]),
]


THEORY: list[Row] = [
    (lambda: assert_contractive(analysed()[0], analysed()[1][0]), ["a single state", "list"]),
    (
        lambda: solve_fixed_point(analysed()[0], {n: p.float() for n, p in analysed()[1][0].items()}),
        ["torch.float32", ".double()"],
    ),
    (
        lambda: assert_contractive(analysed()[0], [{n: p[None] for n, p in analysed()[1][0].items()}]),
        ["self_map raised", "without a batch axis"],
    ),
    (
        lambda: assert_kind(model(), analysed()[1], "diagonal and linear"),
        ["transition is of type", "model.transition(token)"],
    ),
    (lambda: assert_theorem1(model().transition(1), analysed()[1]), ["self_map raised", ".double()"]),
    (
        lambda: Transition(lambda z, s: z, lambda z, s: s, 1, (("h",),), damping=2),
        ["damping is 2", "at most 1"],
    ),
    (lambda: Transition(lambda z, s: z, lambda z, s: s, -1, (("h",),)), ["latent_size is -1"]),
    (lambda: Transition(lambda z, s: z, lambda z, s: s, 1, ("h",)), ["layer_states", "(('h',),)"]),
    (lambda: Transition(lambda z, s: z, lambda z, s: s, 1, None), ["layer_states is None", "(('h',),)"]),
    (lambda: solve_fixed_point(analysed()[0], analysed()[1][0], [0.0]), ["start is [0.0]"]),
    (lambda: layer_jacobians(analysed()[0], analysed()[1][0], None), ["latent is None", "float64"]),
    (
        lambda: full_state_jacobian(analysed()[0], analysed()[1][0], torch.zeros(1).double()),
        ["latent has shape (1,)", "(8,)"],
    ),
    (lambda: latent_jacobian(None, {}, torch.zeros(1)), ["transition is None", "Transition"]),
    (
        lambda: written(lambda z, s: torch.as_tensor(np.tanh(z.numpy()))),
        ["self_map cannot be differentiated", "without NumPy"],
    ),
    (
        lambda: written(lambda z, s: z.detach() / 2 + s["h"] / 3),
        ["self_map changes", "derivative is 0", ".detach()"],
    ),
    (
        lambda: written(lambda z, s: z / 2, lambda z, s: {"h": torch.as_tensor(np.tanh(s["h"].numpy()))}),
        ["state_update cannot be differentiated", "without NumPy"],
    ),
    (lambda: written(lambda z, s: np.zeros(2)), ["self_map returns is of type ndarray", "(2,)"]),
    (lambda: written(lambda z, s: z.sum()), ["shape ()", "(2,)"]),
    (lambda: written(lambda z, s: z.float()), ["torch.float32", "torch.float64"]),
    (
        lambda: written(lambda z, s: z / 2, lambda z, s: s["h"]),
        ["state_update returns is of type Tensor", "dictionary"],
    ),
    (lambda: written(lambda z: z), ["self_map raised TypeError", "give"]),
    (
        lambda: assert_fixed_point(*analysed(), [torch.zeros(8).double()]),
        ["latents holds 1 for 2 states", "one for each"],
    ),
    (lambda: assert_fixed_point(*analysed(), tolerance=-1), ["tolerance is -1", "at least 0"]),
    (lambda: assert_theorem1(*analysed(), "hold"), ["'hold'", "'holds'"]),
    (lambda: assert_modes_agree(model(), [[0, 1]], SIMULTANEOUS, SEQUENTIAL), ["tokens is [[0, 1]]"]),
    (
        lambda: assert_modes_agree(model(), TOKENS, SIMULTANEOUS, SEQUENTIAL, share=2),
        ["share is 2", "at most 1"],
    ),
]


MODELS: list[Row] = [
    (lambda: model()([[0, 1]]), ["tokens is [[0, 1]]", "torch.as_tensor(tokens)"]),
    (lambda: model()(np.array([[0, 1]])), ["of type ndarray", "torch.as_tensor(tokens)"]),
    (lambda: lstm().run(None), ["tokens is None", "int64"]),
    (lambda: model()(TOKENS.to("meta")), ["on meta", "on cpu", "move"]),
    (lambda: lstm().run(WIDE), ["(10000000, 10000000)", "GiB", "fewer sequences"]),
    (lambda: model().states([[0, 1]]), ["tokens is [[0, 1]]"]),
    (lambda: model().transitions([0, 1]), ["tokens is [0, 1]", "torch.as_tensor"]),
    (lambda: model().transition("1"), ["token is '1'", "whole number"]),
    (lambda: model().step(model().init_state(1), 1), ["token is 1", "torch.as_tensor"]),
    (lambda: lstm().step(lstm().init_state(2), TOKENS), ["token has shape (2, 3)", "[batch]"]),
    (lambda: model().step(TOKENS[:, 0], model().init_state(2)), ["token is", "torch.as_tensor"]),
    (lambda: model().init_state(-1), ["batch_size is -1", "at least 0"]),
    (
        lambda: model().run(TOKENS, state(**{"conv.0": torch.zeros(2, 5, 3)})),
        ["conv.0", "(2, 5, 3)", "needs"],
    ),
    (
        lambda: model().run(TOKENS, {name: part.double() for name, part in state().items()}),
        ["torch.float64", ".to(torch.float32)"],
    ),
    (
        lambda: model().run(TOKENS, {name: part.numpy() for name, part in state().items()}),
        ["conv.0 is of type ndarray", "returned"],
    ),
    (lambda: lstm().run(TOKENS, torch.zeros(2, 4)), ["state is of type Tensor", "returned"]),
    (lambda: model().run(TOKENS, SEQUENTIAL), ["state is of type Solve", "leave"]),
    (lambda: model().run(TOKENS, lengths=[3, 2]), ["lengths is [3, 2]", "torch.as_tensor"]),
    (lambda: model().run(TOKENS, solve="sequential"), ["'sequential'", "Solve("]),
    (lambda: Solve(np.zeros(2)), ["mode", "known: auto"]),
    (lambda: FactoredImplicit("tight"), ["rtol is 'tight'", "number"]),
    (lambda: Solve("serial"), ["'serial'", "'sequential'"]),
    (lambda: Solve(stopping=1e-3), ["stopping is 0.001", "Stopping("]),
    (lambda: Solve(solver="anderson"), ["'anderson'", "DampedPicard"]),
    (lambda: Solve(gradient=Phantom), ["the class Phantom", "Phantom(4)"]),
    (
        lambda: model().run(TOKENS, solve=Solve(start=torch.zeros(2, 3, 8).double())),
        ["start has", "torch.float64"],
    ),
    (lambda: Unrolled("four"), ["iterations is 'four'", "whole number"]),
    (lambda: Windowed("wide"), ["width is 'wide'", "whole number"]),
    (lambda: LSTMConfig(vocabulary_size=2), ["output_size is missing", "give"]),
    (lambda: LSTMConfig(vocabulary_size=2, output_size=2, d_model=-1), ["d_model is -1", "greater than 0"]),
    (
        lambda: LSTM(Mamba2Config(vocabulary_size=2, output_size=2)),
        ["config is of type", "LSTM.config_class"],
    ),
    (lambda: build_model(LSTM, {}, PARITY), ["the class LSTM", "'lstm'"]),
    (lambda: build_model("lstm", {}, "parity"), ["task is 'parity'", "task_from"]),
    (lambda: build_model("lstm", None, PARITY), ["sizes is None", "'d_model'"]),
    (lambda: build_model("lstm", {"d_modl": 4}, PARITY), ["'d_modl'", "'d_model'"]),
    (lambda: build_model("implicit-mamba2", {"damping": 2}, PARITY), ["damping is 2"]),
]


A = analysis
SETTINGS: set[type[BaseModel]] = {question.settings for question in QUESTIONS}
SETTINGS |= {TrainConfig, Curriculum, EvaluationConfig, InitialWeights, OptimizerConfig}

RUNS: list[Row] = [
    (lambda: evaluate(run(), PARITY, 4), ["model is of type Run", "load_run(...).model"]),
    (lambda: evaluate(model(), "parity", 4), ["task is 'parity'", "task_from"]),
    (lambda: evaluate(lstm(), make_task("S3"), 4), ["S3", "6", "trained on"]),
    (lambda: evaluate(lstm(), PARITY, 2.5), ["length is 2.5", "whole number"]),
    (lambda: evaluate(lstm(), PARITY, 4, seed=-1), ["seed is -1", "at least 0"]),
    (lambda: evaluate(lstm(), PARITY, 4, stream="test"), ["'test'", "Stream.TEST"]),
    (lambda: evaluate(lstm(), PARITY, 10**10), ["10000000000", "GiB", "available"]),
    (lambda: recipe("parity", "lstm", seed=-1), ["seed is -1"]),
    (lambda: recipe("parity", "lstm", stepz=1), ["'stepz'", "'steps'"]),
    (lambda: recipe(None, "lstm"), ["task is None", "give a Task"]),
    (lambda: train("parity", "runs/x"), ["config is 'parity'", "recipe("]),
    (lambda: train(recipe("parity", "lstm"), None), ["out is None", "run folder"]),
    (lambda: train(recipe("parity", "lstm"), "runs/x", device="gpu"), ["device is 'gpu'", "cpu"]),
    (lambda: load_run(3), ["run is 3", "run folder"]),
    (lambda: load_run(run()), ["run is of type Run", "run folder"]),
    (lambda: load_run("9" * 400), ["unknown", "known:"]),
    (lambda: A.jacobian.analyse("parity"), ["run is 'parity'", "load_run"]),
    (lambda: A.jacobian.analyse(run(), {"length": 3}), ["{'length': 3}", "JacobianSettings"]),
    (lambda: A.convergence.analyse(model()), ["run is of type", "load_run"]),
    (lambda: A.agreement.analyse(run(), seuqences=2), ["'seuqences'", "'sequences'"]),
    (lambda: A.extraction.analyse(None), ["run is None", "load_run"]),
    (lambda: A.error_control.analyse(None), ["run is None", "load_run"]),
    (lambda: A.belief.analyse(None), ["run is None", "load_run"]),
    (lambda: A.belief.analyse([]), ["runs is empty", "at least one"]),
    (lambda: A.belief.measure_belief(model()), ["run is of type", "load_run"]),
    (lambda: A.belief.measure_belief(run(), multiplse=(1,)), ["'multiplse'", "'multiples'"]),
    (lambda: A.belief.measure_belief(run()), ["no hidden state", "lazy-swaps"]),
    (lambda: A.mechanism.compare(None), ["run is None", "load_run"]),
    (lambda: A.mechanism.compare([]), ["runs is empty", "at least one"]),
    (lambda: A.mechanism.compare([model()]), ["run is of type", "load_run"]),
    (lambda: A.length_generalization.analyse(None), ["run is None", "load_run"]),
    (lambda: A.length_generalization.analyse([]), ["runs is empty", "at least"]),
    (lambda: A.length_generalization.analyse(run(), lengths=(10**10,)), ["10000000000", "GiB", "available"]),
]


@pytest.mark.parametrize(
    ("call", "words"),
    [*AUTOMATA, *THEORY, *MODELS, *RUNS],
    ids=lambda part: " … ".join(part) if isinstance(part, list) else "",
)
def test_wrong_input_ends_in_one_sentence_whose_remedy_follows_the_fault(
    call: Callable[[], object], words: Sequence[str]
) -> None:
    with pytest.raises((InputError, NotApplicableError)) as caught:
        call()
    sentence = str(caught.value)
    assert sentence == " ".join(sentence.split())  # one line
    assert "; " in sentence, sentence
    assert all(word in sentence for word in words), sentence


@pytest.mark.parametrize("settings", sorted(SETTINGS, key=str))
def test_settings_take_known_fields_and_finite_numbers_only_and_stay(settings: type[BaseModel]) -> None:
    assert settings.model_config.get("frozen") is True
    floats = [name for name, field in settings.model_fields.items() if field.annotation is float]
    for name, value in [("unknown", 1.0), *((name, bad) for name in floats for bad in (math.nan, math.inf))]:
        with pytest.raises(ValidationError) as refused:
            settings.model_validate({name: value})
        assert (name,) in {error["loc"][:1] for error in refused.value.errors()}
