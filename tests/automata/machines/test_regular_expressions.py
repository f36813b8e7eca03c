"""Regular expressions against ``re.fullmatch`` on all short words, and against pyformlang's own parser."""

import re
from itertools import product as words_of

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyformlang.regular_expression import PythonRegex

from automata.errors import InputError
from automata.machines import regular_expressions
from automata.machines.regular_expressions import regular_expression_dfa

PATTERNS = {  # expressions by alphabet
    "ab": [
        *("", "a", "ab", "(ab|ba)*", "a{3}", "a{2,}", "a{,2}b", "(ab){1,2}", "a{0}b", "^a|b$"),
        *("^(a|b)$", "(^a|b)+", "(a$|b)*", "$^", "a^b", r"\Aab\Z", "a?b*", "a|", "(|a)b", "a||b"),
        *("(a*)*", "(a|b*)*a", "((a|b)(a|b))*", "(?:ab)+", "(?P<name>ab)+", "(?#nothing)a"),
        *("a*?b+?", "a{1,2}?"),
    ],
    "abc": ["[ab]+", "[^a]", "[^a-b]c", "[a-b]c"],
    "ab{": ["a{b"],
    "a]": ["[]a]"],
    "a^": ["[a^]"],
    "a-": ["[a-]"],
    "ab\n": [".", ".*a."],
    "01x": [r"\d+", r"\D"],
    "a_-": [r"\w\W"],
    "ab \n": [r"a\sb"],
    "a \t": [r"\S*"],
    "0_x": [r"[\d_]+"],
    "a-+": [r"[^\w-]"],
    ".*a": [r"\.\*"],
    "(a)": [r"\(a\)"],
    "[]\\": [r"\[\]|\\"],
    "ab\t": [r"a\tb|\x61|\u0062"],
    "ab ": ["a b"],
    "#a": ["#"],
    "éßs": ["é+|ß"],
    "éλ😀": [r"\w|😀"],
    "3٣a": [r"\d"],
    "αβγδ": ["[α-γ]*"],
    "01": ["(0|1)*10", "((0|1)(0|1))*1"],
}


def disagreements(expression: str, alphabet: str, longest: int) -> list[str]:
    dfa = regular_expression_dfa(expression, alphabet)
    words = ["".join(word) for length in range(longest + 1) for word in words_of(alphabet, repeat=length)]
    pattern = re.compile(expression)
    return [word for word in words if dfa.accepts(word) != bool(pattern.fullmatch(word))]


@pytest.mark.parametrize(
    ("alphabet", "expression"),
    [(letters, one) for letters, many in PATTERNS.items() for one in many],
    ids=repr,
)
def test_the_words_are_those_that_re_matches(alphabet: str, expression: str) -> None:
    # the automata of the table have at most 7 states, so that words of 6 letters reach all of them
    assert len(regular_expression_dfa(expression, alphabet).states) <= 7
    assert disagreements(expression, alphabet, 6) == []


EXPRESSIONS = st.recursive(
    st.sampled_from(["a", "b", "c", "", ".", "[ab]", "[^a]", "[a-b]", "[^b-c]", "^", "$"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: f"{pair[0]}{pair[1]}"),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{1,3}", "*?", "{,2}"])).map(
            lambda pair: f"({pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS)
@settings(max_examples=80, deadline=None)
def test_random_expressions_mean_what_they_mean_to_re(expression: str) -> None:
    assert disagreements(expression, "abc", 4) == []


@pytest.mark.parametrize("expression", ["(ab|b)*a", "a*b*(a|b?)", "(a[ab])*", "a{2,3}b+", "(a|b)*abb(a|b)*"])
def test_there_are_as_many_states_as_pyformlang_finds(expression: str) -> None:
    smallest = PythonRegex(expression).to_epsilon_nfa().to_deterministic().minimize()
    is_partial = smallest.get_number_transitions() < 2 * len(smallest.states)
    assert len(regular_expression_dfa(expression).states) == len(smallest.states) + is_partial


@pytest.mark.parametrize(
    ("expression", "alphabet"),
    [("(ab|ba)*", "ab"), ("[b-d]x", "bcdx"), ("[^a]b", "ab"), ("z|a", "az"), ("a b", " ab"), ("a.", "a")],
)
def test_the_alphabet_is_what_the_expression_names(expression: str, alphabet: str) -> None:
    assert regular_expression_dfa(expression).alphabet == tuple(alphabet)


@pytest.mark.parametrize(
    ("expression", "alphabet", "message"),
    [
        ("(a", None, r"expression '\(a' is malformed \(unclosed bracket at position 0\)"),
        ("[b-a]", None, "bad character range"),
        ("a{99999999999}", None, "malformed"),
        ("(" * 5000, None, "nested too deeply"),
        ("(" * 300 + "a" + ")*" * 300 + "(" * 400 + "a" + ")*" * 400, None, "nested too deeply"),
        (r"(a)\1", None, "a backreference, which is not regular"),
        (r"(a)(?(1)a|b)", None, "a condition on a group"),
        ("(?=a)a", None, "a lookaround"),
        (r"\ba", None, r"the word boundary \\b"),
        (r"a\B", None, r"has \\B"),
        ("(?>a*)a", None, "an atomic group"),
        ("a*+a", None, "a possessive repetition"),
        ("(?i)a", None, "a flag such as"),
        ("(?i:a)", None, "a flag such as"),
        (r"\d*", None, "names no letter; give the alphabet"),
        ("", None, "names no letter; give the alphabet"),
        (r"a\d", None, "a class without a letter of the alphabet 'a'"),
        ("[^a]", None, "a class without a letter"),
        ("[\u0000-\uffff]", None, "a range of 65536 letters; give the alphabet"),
        ("ab", "a", "uses 'b', which is not in the alphabet; add it"),
        ("a", ["a", "bc"], "alphabet holds 'bc'; give single letters"),
        ("a$", "a\n", "write "),
        ("(a$|\n)*", None, "write "),
        ("((a{100}){100}){100}", None, "positions once its repetitions are written out"),
        ("(a|b)*a(a|b){20}", None, "more than 20000 states"),
    ],
)
def test_bad_expressions_are_refused_by_name(expression: str, alphabet: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        regular_expression_dfa(expression, alphabet)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "states"),
    [
        ("a(){4000000000}", 3),
        ("a(){0,4000000000}", 3),
        ("a((){70000}){70000}", None),
        ("a(b{0}){0,4000000000}", None),
        ("(a" + "()" * 20_000 + "){50}", None),
        ("(a" + "|" * 20_000 + "){1000}", None),
        ("(a{0,9}){0,9}", 83),
        ("(a?){2000}", 2002),
        ("(" * 12 + "a" + "{0,9})" * 12, None),
        ("a" * 10**6, None),
    ],
)
def test_long_repetitions_are_read_or_refused_at_once(expression: str, states: int | None) -> None:
    if states is None:
        with pytest.raises(InputError):
            regular_expression_dfa(expression)
    else:
        assert len(regular_expression_dfa(expression).states) == states


def test_large_sets_of_positions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regular_expressions, "_MOST_WORK", 10**5)
    with pytest.raises(InputError, match="as much work"):
        regular_expression_dfa("(a{0,30}){0,30}")
