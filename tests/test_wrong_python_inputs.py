"""Wrong input to functions, in a Python shell: each is refused in one sentence with field, value and remedy.

A row is the call and the words that the sentence must hold: what was wrong, its value, what to do. Commands
have their tables in tests/implicit, tests/analysis and tests/paper_figures.
"""

import os
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest
import torch
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
from automata import (
    DFA,
    BallPuzzle,
    MarginalFilter,
    Monoid,
    ProbabilisticAutomaton,
    ProgramGrammar,
    ReplLanguage,
    SessionFormat,
    SmallPrograms,
    SwappingBalls,
    cyclic_group,
    hidden_permutations,
    lazy_swaps,
    make_task,
    marginal_scope,
    noisy_parity,
    parity_dfa,
    permutation_group,
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
    build_model,
    evaluate,
    load_run,
    recipe,
    train,
)
from implicit.fixed_point import Anderson, DampedPicard, Stopping
from implicit.gradients import Phantom, Unrolled
from implicit.modes import Windowed
from theory import State, Transition, check_theorem1, solve_fixed_point
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
A = analysis
WIDE = torch.zeros(1, 1, dtype=torch.long).expand(10**7, 10**7)

# Types are wrong on purpose all over these tables.
AUTOMATA: dict[str, Row] = {
    "task: no name": (lambda: make_task(3), ["task is 3", "'parity'"]),
    "task: typo": (lambda: make_task("s5"), ["'s5'", "did you mean 'S5'"]),
    "task: a list": (lambda: task_from([]), ["task is []", "give a Task"]),
    "task: none of the kinds": (lambda: task_from({"regexx": "a"}), ["regexx", "give one"]),
    "task: broken expression": (lambda: task_from("regex:(a"), ["'(a'", "correct"]),
    "task: no such module": (
        lambda: task_from("no_such_module:task"),
        ["no_such_module", "cannot be imported"],
    ),
    "swapped balls: a float": (lambda: SwappingBalls(5.0), ["balls is 5.0", "whole number"]),
    "swapped balls: as many swaps as words": (lambda: SwappingBalls(5, "ten"), ["swaps is 'ten'", "whole"]),
    "swapped balls: a list of readings": (lambda: SwappingBalls(5, swapped=["ball"]), ["['ball']", "place"]),
    "puzzle: a pair that is none": (lambda: BallPuzzle(5, (3,), 1), ["swaps holds 3", "pairs"]),
    "puzzle: a pair of names": (lambda: BallPuzzle(5, (("a", "b"),), 1), ["swaps", "'a'", "whole number"]),
    "puzzle: swaps that are a number": (lambda: BallPuzzle(5, 3, asked=1), ["swaps is 3", "pairs"]),
    "swaps: a shape in words": (lambda: sample_swaps(5, "x", GENERATOR), ["shape is 'x'", "(3,)"]),
    "swaps: a size below 0": (lambda: sample_swaps(5, (-1,), GENERATOR), ["shape is -1", "at least 0"]),
    "swaps: beyond the memory": (lambda: sample_swaps(5, (10**15,), GENERATOR), ["GiB of memory", "smaller"]),
    "phrases: a number": (lambda: PhraseTokenizer(3), ["phrases is 3", "texts"]),
    "phrases: a text that is none": (lambda: PhraseTokenizer("ab").encode(3), ["text is 3", "tokens"]),
    "verify: texts that are numbers": (lambda: verify_programs([3]), ["text is 3", "program"]),
    "verify: a puzzle that is a number": (lambda: verify_balls([3], 5), ["text is 3", "puzzle"]),
    "programs: a text of variables": (lambda: SmallPrograms(variables="xyz"), ["variables is 'xyz'"]),
    "program: a function": (lambda: run_program(print), ["source is", "text of a program"]),
    "program: that does not end": (
        lambda: run_program("while 1: pass"),
        ["While in line 1", "range(number)"],
    ),
    "program: a limit of a text": (lambda: run_program("x = 1", "10"), ["limit is '10'", "whole number"]),
    "bound: bytes": (lambda: statement_bound(b"x = 1"), ["source is b'x = 1'", "text"]),
    "grammar: a seed": (lambda: ProgramGrammar().sample(3, 0), ["rng is 0", "default_rng"]),
    "grammar: more statements than fit": (
        lambda: ProgramGrammar().sample(10**20, GENERATOR),
        ["100000000000000000000 statements", "GiB of memory", "fewer"],
    ),
    "grammar: half a statement": (lambda: ProgramGrammar().sample(0.5, GENERATOR), ["statements is 0.5"]),
    "task: negative hard fraction": (lambda: make_task("S3", -1.0), ["hard_fraction is -1"]),
    "batch: length 2.5": (lambda: PARITY.batch(2, 2.5, GENERATOR), ["length is 2.5", "whole number"]),
    "batch: a seed as generator": (
        lambda: PARITY.batch(2, 3, 0),
        ["rng is 0", "numpy.random.default_rng(0)"],
    ),
    "batch: torch's generator": (
        lambda: PARITY.batch(2, 3, torch.Generator()),
        ["rng is of type Generator", "numpy.random"],
    ),
    "batch: beyond the memory": (
        lambda: PARITY.batch(10**6, 10**9, GENERATOR),
        ["length 1000000000", "GiB of memory", "available", "give a shorter length"],
    ),
    "batch: start outside": (lambda: PARITY.batch(2, 3, GENERATOR, [0, 7]), ["start holds [0, 7]", "0 … 1"]),
    "monoid: ragged table": (lambda: Monoid([[0, 1], [1]]), ["[[0, 1], [1]]", "rows"]),
    "monoid: fractions": (lambda: Monoid([[0.5, 1], [1, 0]]), ["float64", "integers"]),
    "group: no permutations": (lambda: permutation_group(5), ["generators is 5", "permutations"]),
    "group: numbers as permutations": (lambda: permutation_group([1, 2]), ["is 1", "(2, 1, 3)"]),
    "group: degree in words": (lambda: symmetric_group("three"), ["degree is 'three'", "whole number"]),
    "group: order None": (lambda: cyclic_group(None), ["order is None", "whole number"]),
    "group: too large": (lambda: symmetric_group(20), ["degree is 20", "1 … 7"]),
    "dfa: word that is a number": (lambda: parity_dfa().accepts(3), ["word is 3", "symbols"]),
    "dfa: symbol that is a number": (lambda: parity_dfa().accepts([1]), ["1 at position 0", "'0', '1'"]),
    "dfa: rows as a list": (
        lambda: DFA(("a",), ("1",), [["a"]], "a", ()),
        ["transitions is [['a']]", "{'even': {'1': 'odd'}"],
    ),
    "repl: a fraction of a variable": (lambda: SessionFormat(2.5), ["variables is 2.5", "whole number"]),
    "repl: unknown group": (lambda: SessionFormat(3, "M11"), ["'M11' is unknown", "S3", "swaps"]),
    "repl: actions that are a number": (lambda: SessionFormat(3, 3), ["actions is 3", "'swaps'"]),
    "repl: a probability in words": (
        lambda: SessionFormat(3, hidden="if", probability="half"),
        ["probability is 'half'", "give a number"],
    ),
    "repl: a probability above 1": (
        lambda: SessionFormat(3, hidden="if", probability=1.5),
        ["probability is 1.5", "[0, 1]"],
    ),
    "repl: unknown format of reveals": (
        lambda: ReplLanguage(3, reveal="parital"),
        ["'parital'", "did you mean 'partial'"],
    ),
    "repl: a seed": (lambda: sample_sessions(SessionFormat(), 1, 0, commands=1), ["rng is 0", "default_rng"]),
    "repl: a format in words": (
        lambda: sample_sessions("x", 1, GENERATOR, commands=1),
        ["form is 'x'", "SessionFormat"],
    ),
    "repl: sessions beyond the memory": (
        lambda: sample_sessions(SessionFormat(), 1, GENERATOR, commands=10**12),
        ["1000000000000 actions", "GiB of memory", "fewer"],
    ),
    "repl: a place that is a number": (
        lambda: last_reveal_accuracy(SessionFormat(3), [3]),
        ["counts holds 3", "pairs"],
    ),
    "repl: places that are a number": (lambda: last_reveal_accuracy(SessionFormat(3), 3), ["counts is 3"]),
    "repl: a place of a format in words": (lambda: last_reveal_accuracy("x", [(3, 1)]), ["form is 'x'"]),
    "repl: no permutations": (lambda: repl_trace(None, (1, 2), []), ["permutations is None", "tuples"]),
    "repl: values in letters": (
        lambda: repl_trace([(2, 1)], "ab", [None]),
        ["values is 'a'", "whole number"],
    ),
    "repl: an image in letters": (lambda: repl_trace(["ba"], (1, 2), [None]), ["'b'", "whole number"]),
    "repl: a permutation that is a number": (lambda: repl_trace([3], (1, 2), [None]), ["is 3", "1 … 2"]),
    "repl: a revealed number": (lambda: repl_trace([(2, 1)], (1, 2), [7]), ["reveals holds 7", "a, b"]),
    "repl: fields that are none": (lambda: SessionFormat.from_fields(None), ["is None", "by name"]),
    "repl: a session that is none": (lambda: check_with_interpreter(3), ["session is 3", "trace"]),
    "repl: a seed in words": (lambda: check_with_interpreter(">>> a = 1", "x"), ["seed is 'x'", "whole"]),
    "repl: a text that is none": (lambda: ReplTokenizer(3).encode(3), ["text is 3", "session"]),
    "repl: a token below 0": (lambda: ReplTokenizer(3).decode([-1]), ["token is -1", "at least 0"]),
    "repl: a token beyond the last": (lambda: ReplTokenizer(3).decode([99]), ["token is 99", "0 … 14"]),
    "repl: a sign that is a number": (lambda: ReplTokenizer(3, [3]), ["signs: one entry is 3", "texts"]),
    "repl: variables in words": (
        lambda: action_permutations("S3", "x"),
        ["variables is 'x'", "whole number"],
    ),
    "repl: a trace that is none": (lambda: record(3), ["trace is 3", "ReplTrace"]),
    "repl: a path that is none": (lambda: write_text(3, []), ["path is 3", "file"]),
    "repl: traces that are none": (lambda: write_text(os.devnull, 3), ["traces is 3", "several"]),
    "repl: a session that was not drawn": (
        lambda: sample_sessions(SessionFormat(), 1, GENERATOR, commands=1).trace(1),
        ["number is 1", "0 … 0"],
    ),
    "repl: tokens of another kind": (
        lambda: ReplLanguage(3).beliefs(np.zeros((2, 3))),
        ["tokens holds float64", "integers"],
    ),
    "repl: a reveal that contradicts the belief": (
        lambda: ReplLanguage(2).beliefs(
            [ReplLanguage(2).tokenizer.encode(">>> a = 1\n>>> b = 2\n>>> print('a', a)\na 2")]
        ),
        ["'2' at position 19 of sequence 0", "contradicts", "can occur"],
    ),
    "pfsa: two values of one name": (
        lambda: ProbabilisticAutomaton(["p", "q"], [1, 0], {}, {"look": [1, "1"]}),
        ["'look' shows 1 and '1'", "one name, '1'", "different names"],
    ),
    "audit: beyond the memory": (
        lambda: shortcut_audit(PARITY, 10**13),
        ["10000000000000 tokens", "GiB of memory", "shorter length"],
    ),
    "pfsa: matrix that is a text": (
        lambda: ProbabilisticAutomaton(["a"], initial=[1], actions={"flip": "x"}),
        ["'flip'", "'x'", "[1, 1]"],
    ),
    "pfsa: rows instead of columns": (
        lambda: ProbabilisticAutomaton(
            ["a", "b"], initial=[1, 0], actions={"flip": [[0.9, 0.1], [0.5, 0.5]]}
        ),
        ["'flip'", "1.4", "sum 1"],
    ),
    "pfsa: not a permutation": (
        lambda: hidden_permutations(2, {"swap": {(2, 2): 1.0}}),
        ["'swap'", "(2, 2)", "permutations of 1 … 2"],
    ),
    "pfsa: a permutation as a text": (
        lambda: hidden_permutations(2, {"swap": {"21": 1.0}}),
        ["'swap'", "21", "permutations of 1 … 2"],
    ),
    "pfsa: mixture of sum 0.5": (
        lambda: hidden_permutations(2, {"swap": {(2, 1): 0.5}}),
        ["'swap'", "0.5", "sum 1"],
    ),
    "pfsa: an action as a list": (
        lambda: hidden_permutations(2, {"turn": [(2, 1)]}),  # type: ignore[dict-item]
        ["action 'turn' is [(2, 1)]", "mapping from permutations"],
    ),
    "pfsa: actions as a list": (lambda: hidden_permutations(2, [(2, 1)]), ["actions is [(2, 1)]", "mapping"]),
    "pfsa: a probability as a text": (
        lambda: hidden_permutations(2, {"turn": {(2, 1): "1"}}),  # type: ignore[dict-item]
        ["(2, 1) in action 'turn' is '1'", "number"],
    ),
    "pfsa: variables as a text": (lambda: lazy_swaps("3"), ["variables is '3'", "whole number"]),
    "pfsa: probability of swaps as a text": (lambda: lazy_swaps(3, ".5"), ["probability is '.5'", "number"]),
    "pfsa: swaps that are a number": (lambda: lazy_swaps(3, swaps=3), ["swaps is 3", "pairs (i, j)"]),
    "pfsa: a swap of three": (lambda: lazy_swaps(3, swaps=[(1, 2, 3)]), ["swaps holds (1, 2, 3)", "pairs"]),
    "pfsa: a swap of names": (lambda: lazy_swaps(3, swaps=["ab"]), ["swaps holds 'ab'", "pairs"]),
    "pfsa: parity that fails in words": (lambda: noisy_parity("x"), ["failure_probability is 'x'", "number"]),
    "pfsa: a coin of None": (lambda: unknown_coin(None), ["heads_probability is None", "give a number"]),
    "pfsa: bias in percent": (lambda: unknown_coin(60), ["heads_probability is 60", "[0, 1]"]),
    "pfsa: a contradiction": (
        lambda: hidden_permutations(2, {"stay": {(1, 2): 1.0}}).beliefs([[1], [1]], [[0], [1]]),
        ["position 0 of sequence 1", "give a trace that can occur"],
    ),
    "marginals: unknown variable": (
        lambda: MarginalFilter(hidden_permutations(2, {}), ["variable 3"]),
        ["'variable 3'", "Known: all, variable 1"],
    ),
    "marginals: contradiction": (
        lambda: MarginalFilter(hidden_permutations(2, {}), ["variable 1", "variable 2"]).run([0], [1]),
        ["position 0", "probability 0", "give a trace that can occur"],
    ),
    "marginals: length in words": (
        lambda: marginal_scope(hidden_permutations(2, {}), ["variable 1"], "long"),
        ["length is 'long'", "whole number"],
    ),
    "expression: None": (lambda: regular_expression_dfa(None), ["expression is None", "(ab|ba)*"]),
    "expression: not regular": (lambda: regular_expression_dfa(r"(a)\1"), ["backreference", "leave it out"]),
}

MODELS: dict[str, Row] = {
    "tokens: lists": (lambda: model()([[0, 1]]), ["tokens is [[0, 1]]", "torch.as_tensor(tokens)"]),
    "tokens: an array": (lambda: model()(np.array([[0, 1]])), ["of type ndarray", "torch.as_tensor(tokens)"]),
    "tokens: None": (lambda: lstm().run(None), ["tokens is None", "int64"]),
    "tokens: fractions": (lambda: model().run(TOKENS.float()), ["torch.float32", "tokens.long()"]),
    "tokens: no batch axis": (lambda: lstm()(TOKENS[0]), ["(3,)", "[batch, length]"]),
    "tokens: empty": (lambda: model().run(TOKENS[:, :0]), ["(2, 0)", "at least one"]),
    "tokens: outside": (lambda: lstm()(TOKENS + 4), ["token 5", "0 to 1"]),
    "tokens: another device": (lambda: model()(TOKENS.to("meta")), ["on meta", "on cpu", "move"]),
    "tokens: beyond the memory": (
        lambda: lstm().run(WIDE),
        ["(10000000, 10000000)", "GiB", "fewer sequences"],
    ),
    "states: lists": (lambda: model().states([[0, 1]]), ["tokens is [[0, 1]]"]),
    "transitions: lists": (lambda: model().transitions([0, 1]), ["tokens is [0, 1]", "torch.as_tensor"]),
    "transition: a text": (lambda: model().transition("1"), ["token is '1'", "whole number"]),
    "transition: outside": (lambda: lstm().transition(7), ["token 7", "0 to 1"]),
    "step: a number": (lambda: model().step(model().init_state(1), 1), ["token is 1", "torch.as_tensor"]),
    "step: sequences": (
        lambda: lstm().step(lstm().init_state(2), TOKENS),
        ["token has shape (2, 3)", "[batch]"],
    ),
    "step: swapped": (
        lambda: model().step(TOKENS[:, 0], model().init_state(2)),
        ["token is", "torch.as_tensor"],
    ),
    "init_state: negative": (lambda: model().init_state(-1), ["batch_size is -1", "at least 0"]),
    "state: renamed part": (lambda: model().run(TOKENS, {"hh": torch.zeros(2, 3)}), ["hh", "ssm.0"]),
    "state: part of another size": (
        lambda: model().run(TOKENS, state(**{"conv.0": torch.zeros(2, 5, 3)})),
        ["conv.0", "(2, 5, 3)", "needs"],
    ),
    "state: of another batch": (
        lambda: lstm().run(TOKENS, lstm().init_state(3)),
        ["hidden.0", "(3, 4)", "(2, 4)"],
    ),
    "state: of another dtype": (
        lambda: model().run(TOKENS, {name: part.double() for name, part in state().items()}),
        ["torch.float64", ".to(torch.float32)"],
    ),
    "state: arrays": (
        lambda: model().run(TOKENS, {name: part.numpy() for name, part in state().items()}),
        ["conv.0 is of type ndarray", "returned"],
    ),
    "state: a tensor": (
        lambda: lstm().run(TOKENS, torch.zeros(2, 4)),
        ["state is of type Tensor", "returned"],
    ),
    "state: options in its place": (
        lambda: model().run(TOKENS, SEQUENTIAL),
        ["state is of type Solve", "leave"],
    ),
    "lengths: a list": (
        lambda: model().run(TOKENS, lengths=[3, 2]),
        ["lengths is [3, 2]", "torch.as_tensor"],
    ),
    "lengths: too long": (lambda: lstm().run(TOKENS, lengths=torch.tensor([4, 1])), ["holds 4", "1 … 3"]),
    "solve: the name of a mode": (
        lambda: model().run(TOKENS, solve="sequential"),
        ["'sequential'", "Solve("],
    ),
    "solve: unknown mode": (lambda: Solve("serial"), ["'serial'", "'sequential'"]),
    "solve: tolerance as stopping": (lambda: Solve(stopping=1e-3), ["stopping is 0.001", "Stopping("]),
    "solve: name of a solver": (lambda: Solve(solver="anderson"), ["'anderson'", "DampedPicard"]),
    "solve: a class as gradient": (lambda: Solve(gradient=Phantom), ["the class Phantom", "Phantom(4)"]),
    "solve: start of another dtype": (
        lambda: model().run(TOKENS, solve=Solve(start=torch.zeros(2, 3, 8).double())),
        ["start has", "torch.float64"],
    ),
    "damping 0": (lambda: DampedPicard(0), ["damping is 0", "above 0"]),
    "damping 2": (lambda: DampedPicard(2), ["damping is 2", "at most 1"]),
    "damping in words": (lambda: DampedPicard("high"), ["damping is 'high'", "number"]),
    "memory of Anderson": (lambda: Anderson(memory=1.5), ["memory is 1.5", "whole number"]),
    "tolerance NaN": (lambda: Stopping(rtol=float("nan")), ["rtol is nan", "at least 0"]),
    "iterations in fractions": (
        lambda: Stopping(max_iterations=1.5),
        ["max_iterations is 1.5", "whole number"],
    ),
    "unrolled in words": (lambda: Unrolled("four"), ["iterations is 'four'", "whole number"]),
    "phantom steps": (lambda: Phantom(steps=0), ["steps is 0", "at least 1"]),
    "width of windows": (lambda: Windowed("wide"), ["width is 'wide'", "whole number"]),
    "config: constructor": (lambda: LSTMConfig(vocabulary_size=2), ["output_size is missing", "give"]),
    "config: negative size": (
        lambda: LSTMConfig(vocabulary_size=2, output_size=2, d_model=-1),
        ["d_model is -1", "greater than 0"],
    ),
    "config: of another model": (
        lambda: LSTM(Mamba2Config(vocabulary_size=2, output_size=2)),
        ["config is of type", "LSTM.config_class"],
    ),
    "build: a class": (lambda: build_model(LSTM, {}, PARITY), ["the class LSTM", "'lstm'"]),
    "build: name of a task": (lambda: build_model("lstm", {}, "parity"), ["task is 'parity'", "task_from"]),
    "build: sizes None": (lambda: build_model("lstm", None, PARITY), ["sizes is None", "'d_model'"]),
    "build: unknown size": (lambda: build_model("lstm", {"d_modl": 4}, PARITY), ["'d_modl'", "'d_model'"]),
    "build: damping 2": (lambda: build_model("implicit-mamba2", {"damping": 2}, PARITY), ["damping is 2"]),
}

RUNS: dict[str, Row] = {
    "evaluate: a run": (lambda: evaluate(run(), PARITY, 4), ["model is of type Run", "load_run(...).model"]),
    "evaluate: name of a task": (lambda: evaluate(model(), "parity", 4), ["task is 'parity'", "task_from"]),
    "evaluate: another task": (lambda: evaluate(lstm(), make_task("S3"), 4), ["S3", "6", "trained on"]),
    "evaluate: length 2.5": (lambda: evaluate(lstm(), PARITY, 2.5), ["length is 2.5", "whole number"]),
    "evaluate: negative seed": (lambda: evaluate(lstm(), PARITY, 4, seed=-1), ["seed is -1", "at least 0"]),
    "evaluate: stream by name": (
        lambda: evaluate(lstm(), PARITY, 4, stream="test"),
        ["'test'", "Stream.TEST"],
    ),
    "evaluate: beyond the memory": (
        lambda: evaluate(lstm(), PARITY, 10**10),
        ["10000000000", "GiB", "available"],
    ),
    "recipe: negative seed": (lambda: recipe("parity", "lstm", seed=-1), ["seed is -1"]),
    "recipe: unknown field": (lambda: recipe("parity", "lstm", stepz=1), ["'stepz'", "'steps'"]),
    "recipe: no task": (lambda: recipe(None, "lstm"), ["task is None", "give a Task"]),
    "train: a name": (lambda: train("parity", "runs/x"), ["config is 'parity'", "recipe("]),
    "train: no folder": (lambda: train(recipe("parity", "lstm"), None), ["out is None", "run folder"]),
    "train: no such device": (
        lambda: train(recipe("parity", "lstm"), "runs/x", device="gpu"),
        ["device is 'gpu'", "cpu"],
    ),
    "load: a number": (lambda: load_run(3), ["run is 3", "run folder"]),
    "load: a run": (lambda: load_run(run()), ["run is of type Run", "run folder"]),
    "load: typo": (lambda: load_run("partiy"), ["'partiy'", "'parity'"]),
    "jacobian: name of a run": (lambda: A.jacobian.analyse("parity"), ["run is 'parity'", "load_run"]),
    "jacobian: settings as a dictionary": (
        lambda: A.jacobian.analyse(run(), {"length": 3}),
        ["{'length': 3}", "JacobianSettings"],
    ),
    "convergence: a model": (lambda: A.convergence.analyse(model()), ["run is of type", "load_run"]),
    "agreement: typo": (lambda: A.agreement.analyse(run(), seuqences=2), ["'seuqences'", "'sequences'"]),
    "extraction: None": (lambda: A.extraction.analyse(None), ["run is None", "load_run"]),
    "error control: None": (lambda: A.error_control.analyse(None), ["run is None", "load_run"]),
    "belief: None": (lambda: A.belief.analyse(None), ["run is None", "load_run"]),
    "belief: no runs": (lambda: A.belief.analyse([]), ["runs is empty", "at least one"]),
    "belief: a model": (lambda: A.belief.measure_belief(model()), ["run is of type", "load_run"]),
    "belief: typo": (lambda: A.belief.measure_belief(run(), multiplse=(1,)), ["'multiplse'", "'multiples'"]),
    "belief: a word problem": (lambda: A.belief.measure_belief(run()), ["no hidden state", "lazy-swaps"]),
    "mechanism: None": (lambda: A.mechanism.compare(None), ["runs is None", "load_run"]),
    "mechanism: no runs": (lambda: A.mechanism.compare([]), ["runs is empty", "at least one"]),
    "mechanism: a model": (lambda: A.mechanism.compare([model()]), ["run is of type", "load_run"]),
    "length generalization: None": (
        lambda: A.length_generalization.analyse(None),
        ["run is None", "load_run"],
    ),
    "length generalization: no runs": (
        lambda: A.length_generalization.analyse([]),
        ["runs is empty", "at least"],
    ),
    "length generalization: beyond the memory": (
        lambda: A.length_generalization.analyse(run(), lengths=(10**10,)),
        ["10000000000", "GiB", "available"],
    ),
}

THEORY: dict[str, Row] = {
    "states: none": (lambda: assert_fixed_point(analysed()[0], []), ["states is empty", "at least one"]),
    "states: a single one": (
        lambda: assert_contractive(analysed()[0], analysed()[1][0]),
        ["a single state", "list"],
    ),
    "states: float32": (
        lambda: solve_fixed_point(analysed()[0], {n: p.float() for n, p in analysed()[1][0].items()}),
        ["torch.float32", ".double()"],
    ),
    "states: with a batch axis": (
        lambda: assert_contractive(analysed()[0], [{n: p[None] for n, p in analysed()[1][0].items()}]),
        ["self_map raised", "without a batch axis"],
    ),
    "transition: the model": (
        lambda: assert_kind(model(), analysed()[1], "diagonal and linear"),
        ["transition is of type", "model.transition(token)"],
    ),
    "transition: of a float32 model": (
        lambda: assert_theorem1(model().transition(1), analysed()[1]),
        ["self_map raised", ".double()"],
    ),
    "transition: damping 2": (
        lambda: Transition(lambda z, s: z, lambda z, s: s, 1, (("h",),), damping=2),
        ["damping is 2", "at most 1"],
    ),
    "transition: negative size": (
        lambda: Transition(lambda z, s: z, lambda z, s: s, -1, (("h",),)),
        ["latent_size is -1"],
    ),
    "transition: a name as layer": (
        lambda: Transition(lambda z, s: z, lambda z, s: s, 1, ("h",)),
        ["layer_states", "(('h',),)"],
    ),
    "NumPy in Φ": (
        lambda: written(lambda z, s: torch.as_tensor(np.tanh(z.numpy()))),
        ["self_map cannot be differentiated", "without NumPy"],
    ),
    "detach in Φ": (
        lambda: written(lambda z, s: z.detach() / 2 + s["h"] / 3),
        ["self_map changes", "derivative is 0", ".detach()"],
    ),
    "NumPy in G": (
        lambda: written(lambda z, s: z / 2, lambda z, s: {"h": torch.as_tensor(np.tanh(s["h"].numpy()))}),
        ["state_update cannot be differentiated", "without NumPy"],
    ),
    "array out of Φ": (
        lambda: written(lambda z, s: np.zeros(2)),
        ["self_map returns is of type ndarray", "(2,)"],
    ),
    "shape out of Φ": (lambda: written(lambda z, s: z.sum()), ["shape ()", "(2,)"]),
    "dtype out of Φ": (lambda: written(lambda z, s: z.float()), ["torch.float32", "torch.float64"]),
    "tensor out of G": (
        lambda: written(lambda z, s: z / 2, lambda z, s: s["h"]),
        ["state_update returns is of type Tensor", "dictionary"],
    ),
    "Φ of one argument": (lambda: written(lambda z: z), ["self_map raised TypeError", "give"]),
    "fixed point: fewer latents": (
        lambda: assert_fixed_point(*analysed(), [torch.zeros(8).double()]),
        ["latents holds 1 for 2 states", "one for each"],
    ),
    "fixed point: negative tolerance": (
        lambda: assert_fixed_point(*analysed(), tolerance=-1),
        ["tolerance is -1", "at least 0"],
    ),
    "theorem: unknown verdict": (lambda: assert_theorem1(*analysed(), "hold"), ["'hold'", "'holds'"]),
    "kind: unknown": (lambda: assert_kind(*analysed(), "diagonal"), ["'diagonal'", "diagonal and linear"]),
    "modes: lists": (
        lambda: assert_modes_agree(model(), [[0, 1]], SIMULTANEOUS, SEQUENTIAL),
        ["tokens is [[0, 1]]"],
    ),
    "modes: share 2": (
        lambda: assert_modes_agree(model(), TOKENS, SIMULTANEOUS, SEQUENTIAL, share=2),
        ["share is 2", "at most 1"],
    ),
    "modes: an explicit model": (
        lambda: assert_modes_agree(lstm(), TOKENS, SIMULTANEOUS, SEQUENTIAL),
        ["not applicable", "LSTM seeks no fixed points"],
    ),
}

TABLE = {**AUTOMATA, **MODELS, **RUNS, **THEORY}


@pytest.mark.parametrize(("call", "words"), TABLE.values(), ids=TABLE)
def test_wrong_input_ends_in_one_sentence(call: Callable[[], object], words: Sequence[str]) -> None:
    with pytest.raises((InputError, NotApplicableError)) as caught:
        call()
    sentence = str(caught.value)
    assert sentence == " ".join(sentence.split())  # one line
    assert "; " in sentence, sentence  # the remedy follows the fault
    assert all(word in sentence for word in words), sentence


def test_the_table_is_as_long_as_promised() -> None:
    assert len(TABLE) >= 60
