"""Wrong input to automata, tasks and languages, in a Python shell."""

import os
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

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
from tests.wrong_python_inputs.refused_calls import GENERATOR, PARITY, Row, assert_refused

# Types are wrong on purpose all over this table.
AUTOMATA: dict[str, Row] = {
    "task: no name": (lambda: make_task(3), ["task is 3", "'parity'"]),
    "task: a list": (lambda: task_from([]), ["task is []", "give a Task"]),
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
    "program: a limit of a text": (lambda: run_program("x = 1", "10"), ["limit is '10'", "whole number"]),
    "bound: bytes": (lambda: statement_bound(b"x = 1"), ["source is b'x = 1'", "text"]),
    "grammar: more statements than fit": (
        lambda: ProgramGrammar().sample(10**20, GENERATOR),
        ["100000000000000000000 statements", "GiB of memory", "fewer"],
    ),
    "task of programs: more statements than fit": (
        lambda: SmallPrograms(statements=10**20).batch(1, 8, GENERATOR),
        ["100000000000000000000 statements", "GiB of memory"],
    ),
    "grammar: half a statement": (lambda: ProgramGrammar().sample(0.5, GENERATOR), ["statements is 0.5"]),
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
    "monoid: ragged table": (lambda: Monoid([[0, 1], [1]]), ["[[0, 1], [1]]", "rows"]),
    "monoid: fractions": (lambda: Monoid([[0.5, 1], [1, 0]]), ["float64", "integers"]),
    "group: no permutations": (lambda: permutation_group(5), ["generators is 5", "permutations"]),
    "group: numbers as permutations": (lambda: permutation_group([1, 2]), ["is 1", "(2, 1, 3)"]),
    "group: degree in words": (lambda: symmetric_group("three"), ["degree is 'three'", "whole number"]),
    "group: order None": (lambda: cyclic_group(None), ["order is None", "whole number"]),
    "dfa: word that is a number": (lambda: parity_dfa().accepts(3), ["word is 3", "list"]),
    "dfa: symbol that is a number": (lambda: parity_dfa().accepts([1]), ["1 at position 0", "'0', '1'"]),
    "dfa: rows as a list": (
        lambda: DFA(("a",), ("1",), [["a"]], "a", ()),
        ["transitions is [['a']]", "dictionary"],
    ),
    "dfa: a list as state": (lambda: DFA(("a",), ("1",), {}, ["a"], ()), ["initial", "['a']", "names"]),
    "dfa: nothing accepts": (lambda: DFA(("a",), ("1",), {}, "a", None), ["accepting is None", "list"]),
    "dfa: a row that is none": (
        lambda: DFA(("a",), ("1",), {"a": None}, "a", ()),  # type: ignore[dict-item]
        ["transitions of 'a' is None", "dictionary"],
    ),
    "audit: more than a float holds": (lambda: shortcut_audit(PARITY, 10**400), ["GiB of memory", "shorter"]),
    "words: of a monoid": (lambda: count_words(symmetric_group(3), 2), ["dfa is of type Monoid", "DFA"]),
    "words: length 2.5": (lambda: count_words(parity_dfa(), 2.5), ["length is 2.5", "whole number"]),
    "words: beyond the memory": (lambda: count_words(parity_dfa(), 10**30), ["GiB of memory", "shorter"]),
    "counter: in words": (lambda: modular_counter_dfa("three"), ["modulus is 'three'", "whole number"]),
    "counter: beyond the memory": (lambda: modular_counter_dfa(2**63), ["GiB of memory", "smaller"]),
    "product: an array as operation": (
        lambda: product(parity_dfa(), parity_dfa(), np.zeros(2)),
        ["operation", "known: difference"],
    ),
    "circuit class: a name": (lambda: circuit_class("S3"), ["subject is 'S3'", "Monoid"]),
    "batch: ragged": (lambda: Batch([[0, 1], [0]], [[0]], [[1]]), ["tokens", "one length"]),
    "task: a part that is an array": (lambda: PARITY.part(np.zeros(2)), ["part", "known: test"]),
    "text: no path": (lambda: TextFile(None), ["path is None", "give"]),
    "text: a zero byte": (lambda: TextFile("a\0b"), ["path", "file system"]),
    "text: half a letter": (lambda: TextFile("\ud800"), ["path", "file system"]),
    "pfsa: states that are a number": (lambda: ProbabilisticAutomaton(3, [1], {"a": [[1]]}), ["states is 3"]),
    "pfsa task: an automaton without beliefs": (
        lambda: PartiallyObserved(parity_dfa()),
        ["automaton is of type DFA", "ProbabilisticAutomaton"],
    ),
    "marginals: no automaton": (lambda: MarginalFilter(None, ["a"]), ["automaton is None"]),
    "word problem: a state in words": (
        lambda: WordProblem([[0]], "q", "a", ["q"]),
        ["initial_state is 'q'", "whole number"],
    ),
    "audit: a name": (lambda: shortcut_audit("parity"), ["task is 'parity'", "Task"]),
    "pfsa: a reveal of nothing": (
        lambda: ProbabilisticAutomaton(["a"], [1], {"f": [[1]]}, {"look": None}),  # type: ignore[dict-item]
        ["reveals of 'look' is None", "list"],
    ),
    "monoid: generators in letters": (
        lambda: monoid_dfa(symmetric_group(3), "ab"),
        ["generators is 'a'", "whole number"],
    ),
    "audit: windows in words": (lambda: shortcut_audit(PARITY, windows=["all"]), ["'all'", "whole number"]),
    "repl: a format that is an array": (lambda: SessionFormat(3, reveal=np.zeros(2)), ["reveal is of type"]),
    "repl: a probability in words": (
        lambda: SessionFormat(3, hidden="if", probability="half"),
        ["probability is 'half'", "give a number"],
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
    "pfsa: two values of one name": (
        lambda: ProbabilisticAutomaton(["p", "q"], [1, 0], {}, {"look": [1, "1"]}),
        ["'look' shows 1 and '1'", "one name, '1'", "different names"],
    ),
    "pfsa: matrix that is a text": (
        lambda: ProbabilisticAutomaton(["a"], initial=[1], actions={"flip": "x"}),
        ["'flip'", "'x'", "[1, 1]"],
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
    "marginals: length in words": (
        lambda: marginal_scope(hidden_permutations(2, {}), ["variable 1"], "long"),
        ["length is 'long'", "whole number"],
    ),
    "expression: None": (lambda: regular_expression_dfa(None), ["expression is None", "(ab|ba)*"]),
}


@pytest.mark.parametrize(("call", "words"), AUTOMATA.values(), ids=AUTOMATA)
def test_wrong_input_ends_in_one_sentence(call: Callable[[], object], words: Sequence[str]) -> None:
    assert_refused(call, words)
