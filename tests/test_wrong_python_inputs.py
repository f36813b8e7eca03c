"""Wrong input to functions, in a Python shell: each is refused in one sentence with field, value and remedy.

A row is the call, in the public names and those of `names`, and the words that the sentence must hold: what
was wrong, its value, what to do. Commands have their tables in the tests of each package.
"""

import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import BaseModel, ValidationError

import analysis
import automata
import implicit
import theory
from analysis.framework.visited_states import in_double_precision, visited_states
from analysis.questions import QUESTIONS
from automata import InputError, programs, repl
from implicit import TrainConfig, gradients, modes
from implicit.config.curriculum import Curriculum
from implicit.config.run import EvaluationConfig, InitialWeights, OptimizerConfig
from theory import testing

PACKAGES = (automata, programs, repl, theory, testing, gradients, modes, implicit, analysis)


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """A stored run with what it visits, an untrained model, and tensors for them."""
    run, tokens = implicit.load_run("parity-small"), torch.tensor([[0, 1, 1], [1, 0, 1]])
    double = in_double_precision(run.model)
    states = [visited.state for visited in visited_states(double, tokens, 2)]
    zeros = run.model.init_state(2)

    def written(self_map: Any, update: Any = lambda z, s: {"h": s["h"] + z}) -> object:
        """The check of Theorem 1 on a Φ, and a G, written by a user."""
        transition = theory.Transition(self_map, update, 2, (("h",),))
        return theory.check_theorem1(transition, [{"h": torch.ones(2).double()}])

    return {
        "np": np,
        "torch": torch,
        "rng": np.random.default_rng(0),
        "parity": automata.make_task("parity"),
        "stored": run,
        "model": run.model,
        "lstm": implicit.build_model("lstm", {"d_model": 4}, automata.make_task("parity")),
        "transition": double.transition(1),
        "states": states,
        "state": states[0],
        "single": {name: part.float() for name, part in states[0].items()},
        "rotating": {name: part + 0j for name, part in states[0].items()},
        "batched": {name: part[None] for name, part in states[0].items()},
        "zeros": zeros,
        "doubles": {name: part.double() for name, part in zeros.items()},
        "arrays": {name: part.numpy() for name, part in zeros.items()},
        "tokens": tokens,
        "wide": torch.zeros(1, 1, dtype=torch.long).expand(10**7, 10**7),
        "together": implicit.Solve("simultaneous"),
        "in_turn": implicit.Solve("sequential"),
        "written": written,
    }


AUTOMATA = [
    ("make_task(3)", "task is 3 | 'parity'"),
    ("task_from([])", "task is [] | give a Task"),
    ("SwappingBalls(5.0)", "balls is 5.0 | whole number"),
    ("SwappingBalls(5, 'ten')", "swaps is 'ten' | whole"),
    ("SwappingBalls(5, swapped=['ball'])", "['ball'] | place"),
    ("BallPuzzle(5, (3,), 1)", "swaps holds 3 | pairs"),
    ("BallPuzzle(5, (('a', 'b'),), 1)", "swaps | 'a' | whole number"),
    ("BallPuzzle(5, 3, asked=1)", "swaps is 3 | pairs"),
    ("sample_swaps(5, 'x', rng)", "shape is 'x' | (3,)"),
    ("sample_swaps(5, (-1,), rng)", "shape is -1 | at least 0"),
    ("sample_swaps(5, (10**15,), rng)", "GiB of memory | smaller"),
    ("PhraseTokenizer(3)", "phrases is 3 | texts"),
    ("PhraseTokenizer('ab').encode(3)", "text is 3 | tokens"),
    ("verify_programs([3])", "text is 3 | program"),
    ("verify_balls([3], 5)", "text is 3 | puzzle"),
    ("SmallPrograms(variables='xyz')", "variables is 'xyz'"),
    ("run_program('x = 1', '10')", "limit is '10' | whole number"),
    ("statement_bound(b'x = 1')", "source is b'x = 1' | text"),
    ("ProgramGrammar().sample(10**20, rng)", "100000000000000000000 statements | GiB of memory | fewer"),
    ("SmallPrograms(statements=10**20).batch(1, 8, rng)", "statements is 100000000000000000000 | at most"),
    ("ProgramGrammar().sample(0.5, rng)", "statements is 0.5"),
    ("parity.batch(2, 2.5, rng)", "length is 2.5 | whole number"),
    ("parity.batch(2, 3, 0)", "rng is 0 | numpy.random.default_rng(0)"),
    ("parity.batch(10**6, 10**9, rng)", "length 1000000000 | GiB of memory | shorter length"),
    ("Monoid([[0, 1], [1]])", "[[0, 1], [1]] | rows"),
    ("permutation_group(5)", "generators is 5 | permutations"),
    ("permutation_group([1, 2])", "is 1 | (2, 1, 3)"),
    ("parity_dfa().accepts(3)", "word is 3 | list"),
    ("parity_dfa().accepts([1])", "1 at position 0 | '0', '1'"),
    ("DFA(('a',), ('1',), [['a']], 'a', ())", "transitions is [['a']] | dictionary"),
    ("DFA(('a',), ('1',), {}, ['a'], ())", "initial | ['a'] | names"),
    ("DFA(('a',), ('1',), {}, 'a', None)", "accepting is None | list"),
    ("DFA(('a',), ('1',), {'a': None}, 'a', ())", "transitions of 'a' is None | dictionary"),
    ("shortcut_audit(parity, 10**400)", "GiB of memory | shorter"),
    ("count_words(symmetric_group(3), 2)", "dfa is of type Monoid | DFA"),
    ("count_words(parity_dfa(), 2.5)", "length is 2.5 | whole number"),
    ("count_words(parity_dfa(), 10**30)", "GiB of memory | shorter"),
    ("modular_counter_dfa('three')", "modulus is 'three' | whole number"),
    ("modular_counter_dfa(2**63)", "GiB of memory | smaller"),
    ("product(parity_dfa(), parity_dfa(), np.zeros(2))", "operation | known: difference"),
    ("circuit_class('S3')", "subject is 'S3' | Monoid"),
    ("Batch([[0, 1], [0]], [[0]], [[1]])", "tokens | one length"),
    ("parity.part(np.zeros(2))", "part | known: test"),
    ("TextFile(None)", "path is None | give"),
    ("TextFile('a\\x00b')", "path | file system"),
    ("TextFile('\\ud800')", "path | file system"),
    ("ProbabilisticAutomaton(3, [1], {'a': [[1]]})", "states is 3"),
    ("PartiallyObserved(parity_dfa())", "automaton is of type DFA | ProbabilisticAutomaton"),
    ("MarginalFilter(None, ['a'])", "automaton is None"),
    ("WordProblem([[0]], 'q', 'a', ['q'])", "initial_state is 'q' | whole number"),
    ("shortcut_audit('parity')", "task is 'parity' | Task"),
    ("ProbabilisticAutomaton(['a'], [1], {'f': [[1]]}, {'look': None})", "reveals of 'look' is None | list"),
    ("monoid_dfa(symmetric_group(3), 'ab')", "generators is 'a' | whole number"),
    ("shortcut_audit(parity, windows=['all'])", "'all' | whole number"),
    ("SessionFormat(3, reveal=np.zeros(2))", "reveal is of type"),
    ("sample_sessions(SessionFormat(), 1, 0, commands=1)", "rng is 0 | default_rng"),
    ("sample_sessions('x', 1, rng, commands=1)", "form is 'x' | SessionFormat"),
    ("last_reveal_accuracy(SessionFormat(3), [3])", "counts holds 3 | pairs"),
    ("last_reveal_accuracy(SessionFormat(3), 3)", "counts is 3"),
    ("last_reveal_accuracy('x', [(3, 1)])", "form is 'x'"),
    ("repl_trace(None, (1, 2), [])", "permutations is None | tuples"),
    ("repl_trace([(2, 1)], 'ab', [None])", "values is 'a' | whole number"),
    ("repl_trace(['ba'], (1, 2), [None])", "'b' | whole number"),
    ("repl_trace([3], (1, 2), [None])", "is 3 | 1 … 2"),
    ("repl_trace([(2, 1)], (1, 2), [7])", "reveals holds 7 | a, b"),
    ("SessionFormat.from_fields(None)", "is None | by name"),
    ("check_with_interpreter(3)", "session is 3 | trace"),
    ("check_with_interpreter('>>> a = 1', 'x')", "seed is 'x' | whole"),
    ("ReplTokenizer(3).encode(3)", "text is 3 | session"),
    ("ReplTokenizer(3).decode([-1])", "token is -1 | at least 0"),
    ("ReplTokenizer(3).decode([99])", "token is 99 | 0 … 14"),
    ("ReplTokenizer(3, [3])", "signs: one entry is 3 | texts"),
    ("action_permutations('S3', 'x')", "variables is 'x' | whole number"),
    ("record(3)", "trace is 3 | ReplTrace"),
    ("write_text(3, [])", "path is 3 | file"),
    ("write_text('/dev/null', 3)", "traces is 3 | several"),
    ("sample_sessions(SessionFormat(), 1, rng, commands=1).trace(1)", "number is 1 | 0 … 0"),
    ("ReplLanguage(3).beliefs(np.zeros((2, 3)))", "tokens holds float64 | integers"),
    ("ProbabilisticAutomaton(['p', 'q'], [1, 0], {}, {'look': [1, '1']})", "'look' shows 1 and '1' | names"),
    ("ProbabilisticAutomaton(['a'], initial=[1], actions={'flip': 'x'})", "'flip' | 'x' | [1, 1]"),
    ("hidden_permutations(2, {'swap': {(2, 2): 1.0}})", "'swap' | (2, 2) | permutations of 1 … 2"),
    ("hidden_permutations(2, {'swap': {'21': 1.0}})", "'swap' | 21 | permutations of 1 … 2"),
    ("hidden_permutations(2, {'swap': {(2, 1): 0.5}})", "'swap' | 0.5 | sum 1"),
    ("hidden_permutations(2, {'turn': [(2, 1)]})", "action 'turn' is [(2, 1)] | mapping from permutations"),
    ("hidden_permutations(2, [(2, 1)])", "actions is [(2, 1)] | mapping"),
    ("hidden_permutations(2, {'turn': {(2, 1): '1'}})", "(2, 1) in action 'turn' is '1' | number"),
    ("lazy_swaps(3, '.5')", "probability is '.5' | number"),
    ("lazy_swaps(3, swaps=3)", "swaps is 3 | pairs (i, j)"),
    ("lazy_swaps(3, swaps=[(1, 2, 3)])", "swaps holds (1, 2, 3) | pairs"),
    ("lazy_swaps(3, swaps=['ab'])", "swaps holds 'ab' | pairs"),
    ("noisy_parity('x')", "failure_probability is 'x' | number"),
    ("unknown_coin(None)", "heads_probability is None | give a number"),
    ("unknown_coin(60)", "heads_probability is 60 | [0, 1]"),
    ("marginal_scope(hidden_permutations(2, {}), ['variable 1'], 'long')", "length is 'long' | whole number"),
    ("regular_expression_dfa(None)", "expression is None | (ab|ba)*"),
]

THEORY = [
    ("assert_contractive(transition, state)", "a single state | list"),
    ("solve_fixed_point(transition, single)", "torch.float32 | .double()"),
    ("solve_fixed_point(transition, rotating)", "torch.complex128 | torch.view_as_real"),
    ("assert_contractive(transition, [batched])", "self_map raised | without a batch axis"),
    ("assert_kind(model, states, 'diagonal and linear')", "transition is of type | model.transition(token)"),
    ("assert_theorem1(model.transition(1), states)", "self_map raised | .double()"),
    ("Transition(lambda z, s: z, lambda z, s: s, 1, (('h',),), damping=2)", "damping is 2 | at most 1"),
    ("Transition(lambda z, s: z, lambda z, s: s, -1, (('h',),))", "latent_size is -1"),
    ("Transition(lambda z, s: z, lambda z, s: s, 1, ('h',))", "layer_states | (('h',),)"),
    ("Transition(lambda z, s: z, lambda z, s: s, 1, None)", "layer_states is None | (('h',),)"),
    ("solve_fixed_point(transition, state, [0.0])", "start is [0.0]"),
    ("solve_fixed_point(transition, state, torch.zeros(2).double())", "start has shape (2,)"),
    ("layer_jacobians(transition, state, None)", "latent is None | float64"),
    ("full_state_jacobian(transition, state, torch.zeros(1).double())", "latent has shape (1,) | (8,)"),
    ("latent_jacobian(None, {}, torch.zeros(1))", "transition is None | Transition"),
    ("written(lambda z, s: z.detach() / 2 + s['h'] / 3)", "self_map changes | derivative is 0 | .detach()"),
    (
        "written(lambda z, s: torch.round(1e12 * (z / 2 + s['h'])) / 1e12)",
        "derivative is 0 | leave out rounding",
    ),
    ("written(lambda z, s: np.zeros(2))", "self_map returns is of type ndarray | (2,)"),
    ("written(lambda z, s: z[None])", "shape (1, 2) | states without a batch axis | (2,)"),
    ("written(lambda z, s: z.float())", "torch.float32 | torch.float64"),
    ("written(lambda z, s: z / 2, lambda z, s: s['h'])", "state_update returns is of type Tensor | dict"),
    ("assert_fixed_point(transition, states, [torch.zeros(8).double()])", "latents holds 1 | for each"),
    ("assert_fixed_point(transition, states, tolerance=-1)", "tolerance is -1 | at least 0"),
    ("assert_fixed_point(transition, states, tolerance=float('inf'))", "tolerance is inf | finite"),
    ("assert_theorem1(transition, states, 'hold')", "'hold' | 'holds'"),
    ("assert_modes_agree(model, [[0, 1]], together, in_turn)", "tokens is [[0, 1]]"),
    ("assert_modes_agree(model, tokens, together, in_turn, share=2)", "share is 2 | at most 1"),
]

MODELS = [
    ("model([[0, 1]])", "tokens is [[0, 1]] | torch.as_tensor(tokens)"),
    ("model(tokens.to('meta'))", "on meta | on cpu | move"),
    ("lstm.run(wide)", "(10000000, 10000000) | GiB | fewer sequences"),
    ("model.states([[0, 1]])", "tokens is [[0, 1]]"),
    ("model.transitions([0, 1])", "tokens is [0, 1] | torch.as_tensor"),
    ("model.transition('1')", "token is '1' | whole number"),
    ("lstm.step(lstm.init_state(2), tokens)", "token has shape (2, 3) | [batch]"),
    ("model.step(tokens[:, 0], model.init_state(2))", "token is | torch.as_tensor"),
    ("model.init_state(-1)", "batch_size is -1 | at least 0"),
    ("model.run(tokens, zeros | {'conv.0': torch.zeros(2, 5, 3)})", "conv.0 | (2, 5, 3) | needs"),
    ("model.run(tokens, doubles)", "torch.float64 | .to(torch.float32)"),
    ("model.run(tokens, arrays)", "conv.0 is of type ndarray | returned"),
    ("lstm.run(tokens, torch.zeros(2, 4))", "state is of type Tensor | returned"),
    ("model.run(tokens, in_turn)", "state is of type Solve | leave"),
    ("model.run(tokens, lengths=[True, 3])", "lengths holds True | numbers in 1 … 3"),
    ("Solve(np.zeros(2))", "mode | known: auto"),
    ("FactoredImplicit('tight')", "rtol is 'tight' | number"),
    ("Solve('serial')", "'serial' | 'sequential'"),
    ("Solve(rtol=0.001)", "argument of Solve 'rtol' | stopping"),
    ("ImplicitLayer([], damping=0.5)", "argument of ImplicitLayer 'damping' | solve"),
    ("cells.Mamba2Cell(8, head_dim=4)", "argument of Mamba2Cell 'head_dim' | did you mean 'head_size'"),
    ("Solve(gradient=Phantom)", "the class Phantom | Phantom(4)"),
    ("model.run(tokens, solve=Solve(start=torch.zeros(2, 3, 8).double()))", "start has | torch.float64"),
    ("LSTM(Mamba2Config(vocabulary_size=2, output_size=2))", "config is of type | LSTM.config_class"),
    ("LSTM(vocabulary_size=2)", "output_size is missing | give"),
    ("LSTM(vocabulary_size=2, output_size=3, d_modle=8)", "'d_modle' is unknown | did you mean 'd_model'"),
    ("LSTM(vocabulary_size=2, output_size=3, d_model=0)", "d_model is 0 | it should be greater than 0"),
    ("LSTM(vocabulary_size=2, output_size=None)", "output_size is None"),
    ("build_model(LSTM, {}, parity)", "the class LSTM | 'lstm'"),
    ("build_model('lstm', {}, 'parity')", "task is 'parity' | task_from"),
    ("build_model('lstm', None, parity)", "sizes is None | 'd_model'"),
    ("build_model('lstm', {'d_modl': 4}, parity)", "'d_modl' | 'd_model'"),
    ("build_model('implicit-mamba2', {'damping': 2}, parity)", "damping is 2"),
]

RUNS = [
    ("evaluate(stored, parity, 4)", "model is of type Run | load_run(...).model"),
    ("evaluate(model, 'parity', 4)", "task is 'parity' | task_from"),
    ("evaluate(lstm, make_task('S3'), 4)", "S3 | 6 | trained on"),
    ("evaluate(lstm, parity, 4, seed=-1)", "seed is -1 | at least 0"),
    ("evaluate(lstm, parity, 4, stream='test')", "'test' | Stream.TEST"),
    ("evaluate(lstm, parity, 10**10)", "10000000000 | GiB | available"),
    ("recipe('parity', 'lstm', seed=-1)", "seed is -1"),
    ("TrainConfig.of('parity', 'lstm')", "'parity' has no name | task='parity'"),
    ("recipe(None, 'lstm')", "task is None | give a Task"),
    ("train('parity', 'runs/x')", "config is 'parity' | recipe("),
    ("train(recipe('parity', 'lstm'), None)", "out is None | run folder"),
    ("train(recipe('parity', 'lstm'), 'runs/x', device='gpu')", "device is 'gpu' | cpu"),
    ("load_run(stored)", "run is of type Run | run folder"),
    ("load_run('9' * 400)", "unknown | known:"),
    ("jacobian.analyse('parity')", "run is 'parity' | load_run"),
    ("jacobian.analyse(stored, {'length': 3})", "{'length': 3} | JacobianSettings"),
    ("convergence.analyse(model)", "run is of type | load_run"),
    ("agreement.analyse(stored, seuqences=2)", "'seuqences' | 'sequences'"),
    ("extraction.analyse(None)", "run is None | load_run"),
    ("error_control.analyse(None)", "run is None | load_run"),
    ("belief.analyse(None)", "run is None | load_run"),
    ("belief.analyse([])", "runs is empty | at least one"),
    ("belief.measure_belief(model)", "run is of type | load_run"),
    ("belief.measure_belief(stored, multiplse=(1,))", "'multiplse' | 'multiples'"),
    ("belief.measure_belief(stored)", "no hidden state | lazy-swaps"),
    ("mechanism.compare(None)", "run is None | load_run"),
    ("mechanism.compare([])", "runs is empty | at least one"),
    ("mechanism.compare([model])", "run is of type | load_run"),
    ("length_generalization.analyse(None)", "run is None | load_run"),
    ("length_generalization.analyse([])", "runs is empty | at least"),
    ("length_generalization.analyse(stored, lengths=(10**10,))", "10000000000 | GiB | available"),
]

SETTINGS: set[type[BaseModel]] = {question.settings for question in QUESTIONS}
SETTINGS |= {TrainConfig, Curriculum, EvaluationConfig, InitialWeights, OptimizerConfig}


@pytest.mark.parametrize(("call", "words"), [*AUTOMATA, *THEORY, *MODELS, *RUNS])
def test_wrong_input_ends_in_one_sentence_whose_remedy_follows_the_fault(
    call: str, words: str, names: dict[str, Any]
) -> None:
    used = set(re.findall(r"\w+", call))
    public = {name: getattr(package, name) for package in PACKAGES for name in used & set(dir(package))}
    with pytest.raises((InputError, testing.NotApplicableError)) as caught:
        eval(call, public | names)
    sentence = str(caught.value)
    assert sentence == " ".join(sentence.split())  # one line
    assert "; " in sentence, sentence
    assert all(word in sentence for word in words.split(" | ")), sentence


@pytest.mark.parametrize("settings", sorted(SETTINGS, key=str))
def test_settings_take_known_fields_and_finite_numbers_only_and_stay(settings: type[BaseModel]) -> None:
    assert settings.model_config.get("frozen") is True
    floats = [name for name, field in settings.model_fields.items() if field.annotation is float]
    for name, value in [("unknown", 1.0), *((name, bad) for name in floats for bad in (math.nan, math.inf))]:
        with pytest.raises(ValidationError) as refused:
            settings.model_validate({name: value})
        assert (name,) in {error["loc"][:1] for error in refused.value.errors()}
