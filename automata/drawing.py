"""Drawings of automata and Cayley graphs: states as circles, accepting ones doubled, edges with symbols."""

import textwrap
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from automata.checks import check_type, checked
from automata.errors import InputError, printable_lines
from automata.machines.dfa import DFA
from automata.machines.named_dfas import monoid_dfa
from automata.monoids.monoid import Monoid
from automata.tasks.word_problem import WordProblem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.table import Table
    from matplotlib.text import Text

Point = NDArray[np.float64]

LARGEST_DRAWING = 150
"""More states than this cannot be told apart in a drawing."""

RADIUS = 0.3
"""The radius of the circle of a state, in the units of the axes."""

_LARGEST_CIRCLE = 12
_LONGEST_NAME = 4
_CENTRED: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8}
"""The style of names and symbols."""
_SMALLEST = 7
"""Points of a table's entries."""
_KEY_WIDTH = 28
"""Letters of that size in the two inches of a panel."""
_GREY = "#333333"
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The palette of Okabe and Ito (2008), which colour-blind readers can tell apart; yellow left out."""


@checked
def draw_dfa(
    dfa: DFA | WordProblem, ax: "Axes | None" = None, label_of: Mapping[object, str] | None = None
) -> "Axes":
    """Draw an automaton: an arrow into the initial state, double circles, one arrow for parallel symbols.

    A word problem is drawn as its automaton, without accepting states. With more than 12 states the initial
    one is grey instead.

    ``label_of`` says what to write into a state instead of its name. Without ``ax`` there are new axes.
    InputError if there are more than ``LARGEST_DRAWING`` states.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> from automata.machines.named_dfas import parity_dfa
        >>> sorted(text.get_text() for text in draw_dfa(parity_dfa()).texts)
        ['0', '0', '1', '1', 'even', 'odd']
    """
    if isinstance(dfa, WordProblem):
        dfa = DFA.from_table(dfa.table, dfa.initial_state, (), dfa.state_names, dfa.token_names)
    labels = {state: _wrapped((label_of or {}).get(state, str(state) or "ε")) for state in dfa.states}
    arrows = {edge: (_listed(names), _GREY) for edge, names in _symbols_of_edges(dfa).items()}
    return _draw(list(dfa.states), labels, arrows, ax, start=dfa.initial, doubled=dfa.accepting)


def _wrapped(name: str) -> str:
    """Break a long name at its spaces: a circle has the width of some nine letters."""
    return "\n".join(textwrap.wrap(name, 9, break_long_words=False, break_on_hyphens=False)) or name


def _listed(names: Sequence[str]) -> str:
    """Return the symbols of an arrow, long ones one below the other."""
    return (", " if max(map(len, names)) <= _LONGEST_NAME else ",\n").join(names)


@checked
def draw_cayley_graph(
    monoid: Monoid, generators: Sequence[int] | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Draw the right Cayley graph: an arrow from x to x·g for every generator g, one colour a generator.

    Where several generators lead from x to the same element the arrow is grey and names them.

    Generators are ``monoid.generators`` if left out and stand in a legend. Without ``ax`` new axes are made.
    InputError if there are more than ``LARGEST_DRAWING`` elements, or no generators.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> from automata.monoids.groups import symmetric_group
        >>> axes = draw_cayley_graph(symmetric_group(3))
        >>> [entry.get_text() for entry in axes.get_legend().get_texts()]
        ['132', '213']
    """
    from matplotlib.lines import Line2D

    dfa = monoid_dfa(monoid, generators, accepting=[])
    colour_of = {symbol: COLORS[i % len(COLORS)] for i, symbol in enumerate(dfa.alphabet)}
    arrows: dict[tuple[object, object], tuple[str, str]] = {}
    for edge, names in _symbols_of_edges(dfa).items():
        arrows[edge] = ("", colour_of[names[0]]) if len(names) == 1 else (", ".join(names), _GREY)
    labels = {state: str(state) for state in dfa.states}
    axes = _draw(list(dfa.states), labels, arrows, ax, start=dfa.initial, doubled=frozenset())
    handles = [Line2D([], [], color=colour, label=in_legend(symbol)) for symbol, colour in colour_of.items()]
    legend = axes.legend(
        handles=handles, title="generator", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False
    )
    show_plainly(*legend.get_texts())
    return axes


@checked
def draw_dfa_or_table(
    dfa: DFA, ax: "Axes | None" = None, label_of: Mapping[object, str] | None = None
) -> "Axes":
    """Draw an automaton that is sparse, and write out the transition table of one that is not.

    Sparse are at most 12 states, with at most three arrows to each, and at most four letters in a circle and
    on an arrow: what can be read in a panel of two inches. InputError for over ``LARGEST_DRAWING`` states.
    """
    arrows = _symbols_of_edges(dfa)
    written = [(label_of or {}).get(state, str(state)) for state in dfa.states]
    written += [", ".join(symbols) for symbols in arrows.values()]
    few = len(dfa.states) <= _LARGEST_CIRCLE and len(arrows) <= 3 * len(dfa.states)
    sparse = few and max(map(len, written)) <= _LONGEST_NAME
    return (draw_dfa if sparse else draw_transition_table)(dfa, ax, label_of)


@checked
def draw_transition_table(
    dfa: DFA, ax: "Axes | None" = None, label_of: Mapping[object, str] | None = None
) -> "Axes":
    """Write out the transition table: a row per state, the initial one first, and a column per symbol.

    Accepting states have a star. Where the axes have no space for the names of the states, numbers stand for
    them, then letters for the symbols, too, which are listed below. Where they have no space for that either,
    there is a sentence with the size. InputError for over ``LARGEST_DRAWING`` states.
    """
    axes = _axes(ax, len(dfa.states))
    names = {
        state: ((label_of or {}).get(state, str(state)) or "ε") + ("*" if state in dfa.accepting else "")
        for state in dfa.states
    }
    states = [dfa.initial, *(state for state in dfa.states if state != dfa.initial)]
    number = {state: str(place) for place, state in enumerate(states)}
    numbered = {state: f"{number[state]} {names[state]}" for state in states}
    letters = dict(zip(ascii_lowercase, dfa.alphabet, strict=False))
    key = textwrap.wrap(", ".join(map(" = ".join, letters.items())), _KEY_WIDTH)
    if not (
        _has_table(axes, dfa, states, names, names)
        or _has_table(axes, dfa, states, numbered, number)
        or (
            len(letters) == len(dfa.alphabet)
            and _has_table(axes, dfa, states, numbered, number, list(letters), key)
        )
    ):
        size = f"{len(states)} states,\n{len(dfa.alphabet)} symbols"
        axes.text(0.5, 0.5, size, **_CENTRED, transform=axes.transAxes)
    return axes


def _has_table(
    axes: "Axes",
    dfa: DFA,
    states: Sequence[object],
    rows: Mapping[object, str],
    entries: Mapping[object, str],
    columns: Sequence[str] | None = None,
    key: Sequence[str] = (),
) -> bool:
    """Write the table, with these names of rows, entries and columns, above the lines of a key.

    Returned is whether it has the space, and is kept.
    """
    from matplotlib.transforms import Bbox

    columns = columns or dfa.alphabet
    below = min(0.09 * len(key), 0.5)
    body = [[rows[s], *(entries[dfa.transitions[s][symbol]] for symbol in dfa.alphabet)] for s in states]
    widths = [max(map(len, column)) + 1 for column in zip(["", *columns], *body, strict=True)]
    table = axes.table(
        body,
        cellColours=[["#E8E8E8", *["white"] * len(columns)] for _ in states],
        cellLoc="center",
        colLabels=["", *columns],
        colColours=["#E8E8E8"] * (len(columns) + 1),
        colWidths=[width / sum(widths) for width in widths],
        bbox=Bbox.from_bounds(0, below, 1, 1 - below),
    )
    table.auto_set_font_size(False)
    table.set_fontsize(_SMALLEST)
    for cell in table.get_celld().values():
        cell.set_linewidth(0.4)
        show_plainly(cell.get_text())
    if not _has_space(axes, table):
        table.remove()
        return False
    if key:
        style: dict[str, Any] = {"ha": "left", "va": "top", "fontsize": _SMALLEST}
        show_plainly(axes.text(0, below - 0.03, "\n".join(key), **style, transform=axes.transAxes))
    return True


def _has_space(axes: "Axes", table: "Table") -> bool:
    """Return whether every entry is smaller than its cell, measured on the page."""
    axes.figure.draw_without_rendering()  # type: ignore[union-attr]
    cells = table.get_celld().values()
    pairs = [(cell.get_text().get_window_extent(), cell.get_window_extent()) for cell in cells]
    return all(text.width <= cell.width and text.height <= cell.height for text, cell in pairs)


def _axes(ax: "Axes | None", states: int, letters: int = 0) -> "Axes":
    """Return the axes that were given, or new ones, without a frame.

    Their size follows the number of states and the most letters beside an arrow.
    """
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes

    if states > LARGEST_DRAWING:
        raise InputError(f"the drawing would have {states} states; give at most {LARGEST_DRAWING}")
    check_type("ax", ax, (Axes, type(None)), "give axes of matplotlib, or leave it out")
    side = 2.6 + 0.5 * min(states, 12) + 0.06 * max(0, states - 12)
    side *= 1 if letters <= _LONGEST_NAME else 1.4
    axes = plt.subplots(figsize=(side, side), layout="constrained")[1] if ax is None else ax
    axes.set_axis_off()
    return axes


def _symbols_of_edges(dfa: DFA) -> dict[tuple[object, object], list[str]]:
    symbols: dict[tuple[object, object], list[str]] = defaultdict(list)
    for source, row in dfa.transitions.items():
        for symbol, target in row.items():
            symbols[source, target].append(symbol)
    return symbols


def _draw(
    states: Sequence[object],
    labels: Mapping[object, str],
    arrows: Mapping[tuple[object, object], tuple[str, str]],
    ax: "Axes | None",
    start: object,
    doubled: frozenset[object],
) -> "Axes":
    from matplotlib.patches import Circle, FancyArrowPatch

    longest = max((len(line) for text, _ in arrows.values() for line in text.split("\n")), default=0)
    axes = _axes(ax, len(states), longest)
    places = _places(states, arrows)
    corners = np.array(list(places.values()))
    margin = 1.1
    axes.set_xlim(corners[:, 0].min() - margin, corners[:, 0].max() + margin)
    axes.set_ylim(corners[:, 1].min() - margin, corners[:, 1].max() + margin)
    axes.set_aspect("equal")
    crowded = len(states) > _LARGEST_CIRCLE  # no space for an arrow from outside: the initial state is grey
    centre = corners.mean(axis=0)
    written: list[Point] = []
    for (source, target), (text, colour) in arrows.items():
        ends, style, label_at = _path(places, arrows, source, target, centre, start)
        # Nearer to where it starts: arrows may cross in the middle, and one may come back.
        middle = max(map(label_at, (0.35, 0.25, 0.5, 0.18, 0.6)), key=lambda at: _space(at, written))
        axes.add_patch(
            FancyArrowPatch(
                *map(tuple, ends),
                connectionstyle=style,
                arrowstyle="-|>",
                mutation_scale=9,
                color=colour,
                linewidth=0.9,
                shrinkA=0,
                shrinkB=0,
            )
        )
        if text:
            written.append(middle)
            box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"}
            show_plainly(axes.text(middle[0], middle[1], text, **_CENTRED, color=colour, bbox=box))
    for state, place in places.items():
        face = "#DDDDDD" if crowded and state == start else "white"
        axes.add_patch(Circle(tuple(place), RADIUS, facecolor=face, edgecolor="black", zorder=2))
        if state in doubled:
            axes.add_patch(Circle(tuple(place), 0.84 * RADIUS, fill=False, edgecolor="black", zorder=3))
        show_plainly(axes.text(place[0], place[1], labels[state], **_CENTRED, zorder=4))
    if not crowded:
        inwards = -_unit(places[start] - centre) if len(states) > 1 else np.array([1.0, 0.0])
        tip = places[start] - RADIUS * inwards
        begin = tuple(tip - 0.55 * inwards)
        axes.add_patch(
            FancyArrowPatch(
                begin, tuple(tip), arrowstyle="-|>", mutation_scale=9, shrinkA=0, shrinkB=0, color="black"
            )
        )
    return axes


def _path(
    places: Mapping[object, Point],
    arrows: Mapping[tuple[object, object], object],
    source: object,
    target: object,
    centre: Point,
    start: object,
) -> tuple[tuple[Point, Point], str, Callable[[float], Point]]:
    """The ends of an arrow, how it bends, and where its label is, by the share of the way."""
    here, there = places[source], places[target]
    if source == target:
        outwards = _unit(here - centre)
        if source == start:  # the arrow into the initial state comes from outside: leave it the space
            outwards = _turned(outwards, -1.2)
        elif outwards[0] > 0.9:  # beside the state the label would hide the loop
            outwards = _turned(outwards, 1.0)
        tip, tail = (here + RADIUS * _turned(outwards, angle) for angle in (-0.5, 0.5))
        return (tail, tip), "arc3,rad=-1.6", lambda _: here + 2.3 * RADIUS * outwards
    along = _unit(there - here)
    bend = 0.25 if (target, source) in arrows else 0.0
    begin, end = here + RADIUS * along, there - RADIUS * along
    side = np.array([along[1], -along[0]])
    # "arc3" is a parabola whose middle control point lies this far to the side
    control = (begin + end) / 2 + bend * float(np.linalg.norm(end - begin)) * side

    def label_at(share: float) -> Point:
        return (1 - share) ** 2 * begin + 2 * share * (1 - share) * control + share**2 * end

    return (begin, end), f"arc3,rad={bend}", label_at


def _space(place: Point, labels: Sequence[Point]) -> float:
    """Return the distance to the nearest label; more than 0.4, where two lines have space, counts as that."""
    return min([0.4, *(float(np.linalg.norm(place - label)) for label in labels)])


def _places(
    states: Sequence[object], arrows: Mapping[tuple[object, object], tuple[str, str]]
) -> dict[object, Point]:
    """Place few states on a circle, the first at the left, and many by their distances in the graph."""
    if len(states) == 1:
        return {states[0]: np.zeros(2)}
    if len(states) <= _LARGEST_CIRCLE:
        radius = max(0.9, 1.35 if len(states) > 2 else 0, 0.27 * len(states))
        angles = np.pi - 2 * np.pi * np.arange(len(states)) / len(states)
        return {s: radius * np.array([np.cos(a), np.sin(a)]) for s, a in zip(states, angles, strict=True)}
    graph: nx.Graph[object] = nx.Graph()
    graph.add_nodes_from(states)
    graph.add_edges_from((source, target) for source, target in arrows if source != target)
    layout = nx.kamada_kawai_layout(graph, scale=0.55 * len(states) ** 0.5 + 0.6)
    return dict(zip(states, _apart(np.array([layout[state] for state in states])), strict=True))


def _apart(points: Point, gap: float = 0.85) -> Point:
    """Push points that are nearer than the gap away from each other, a little at a time."""
    points = points + 1e-3 * np.stack(
        [np.cos(np.arange(len(points))), np.sin(np.arange(len(points)))], axis=1
    )
    for _ in range(200):
        offsets = points[:, None] - points[None, :]
        distances = np.linalg.norm(offsets, axis=2)
        np.fill_diagonal(distances, np.inf)
        push = np.clip(gap - distances, 0, None) / distances
        if not push.any():
            break
        points = points + 0.25 * (push[:, :, None] * offsets).sum(axis=1)
    return points


def _unit(vector: Point) -> Point:
    length = float(np.linalg.norm(vector))
    return vector / length if length else np.array([0.0, 1.0])


def _turned(vector: Point, angle: float) -> Point:
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return turn @ vector


def show_plainly(*texts: "Text") -> None:
    r"""Let texts be drawn letter by letter: ``$`` begins no formula, and control characters are escaped.

    Matplotlib's own labels of powers, which are formulas, stay.
    """
    for text in texts:
        given = text.get_text()
        if given.strip("\n") and not given.startswith("$\\mathdefault{"):  # of ticks, at first empty
            text.set_parse_math(False)
            text.set_usetex(False)
            text.set_text(printable_lines(given))


def in_legend(name: object) -> str:
    """Return the label of a name: Matplotlib leaves what begins with ``_`` out of legends."""
    return f" {name}" if str(name).startswith("_") else str(name)
