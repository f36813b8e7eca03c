"""Drawings of automata and Cayley graphs: states as circles, accepting ones doubled, edges with symbols."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from automata.errors import InputError
from automata.machines.dfa import DFA
from automata.machines.named_dfas import monoid_dfa
from automata.monoids.monoid import Monoid

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LARGEST_DRAWING = 150
"""More states than this cannot be told apart in a drawing."""

_LARGEST_CIRCLE = 12
Point = NDArray[np.float64]
_GREY = "#333333"
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito


def draw_dfa(dfa: DFA, ax: "Axes | None" = None, label_of: Mapping[object, str] | None = None) -> "Axes":
    """Draw an automaton: an arrow into the initial state, double circles, one arrow for parallel symbols.

    With more than 12 states the initial one is grey instead.

    Args:
        dfa: at most ``LARGEST_DRAWING`` states.
        ax: where to draw; new axes if left out.
        label_of: what to write into a state instead of its name.

    Returns:
        The axes.

    Raises:
        InputError: there are too many states.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> from automata.machines.named_dfas import parity_dfa
        >>> sorted(text.get_text() for text in draw_dfa(parity_dfa()).texts)
        ['0', '0', '1', '1', 'even', 'odd']
    """
    labels = {state: (label_of or {}).get(state, str(state) or "ε") for state in dfa.states}
    arrows = {edge: (", ".join(names), _GREY) for edge, names in _symbols_of_edges(dfa).items()}
    return _draw(list(dfa.states), labels, arrows, ax, start=dfa.initial, doubled=dfa.accepting)


def draw_cayley_graph(
    monoid: Monoid, generators: Sequence[int] | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Draw the right Cayley graph: an arrow from x to x·g for every generator g, one colour a generator.

    Where several generators lead from x to the same element the arrow is grey and names them.

    Args:
        monoid: at most ``LARGEST_DRAWING`` elements.
        generators: the elements to draw arrows for; ``monoid.generators`` if left out.
        ax: where to draw; new axes if left out.

    Returns:
        The axes, with a legend of the generators.

    Raises:
        InputError: there are too many elements, or no generators.

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
    colour_of = {symbol: _COLOURS[i % len(_COLOURS)] for i, symbol in enumerate(dfa.alphabet)}
    arrows: dict[tuple[object, object], tuple[str, str]] = {}
    for edge, names in _symbols_of_edges(dfa).items():
        arrows[edge] = ("", colour_of[names[0]]) if len(names) == 1 else (", ".join(names), _GREY)
    labels = {state: str(state) for state in dfa.states}
    axes = _draw(list(dfa.states), labels, arrows, ax, start=dfa.initial, doubled=frozenset())
    handles = [Line2D([], [], color=colour, label=symbol) for symbol, colour in colour_of.items()]
    axes.legend(handles=handles, title="generator", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
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
    import matplotlib.pyplot as plt
    from matplotlib.patches import Circle, FancyArrowPatch

    if len(states) > LARGEST_DRAWING:
        raise InputError(f"the drawing would have {len(states)} states; give at most {LARGEST_DRAWING}")
    axes = plt.subplots(figsize=_figure_size(len(states)), layout="constrained")[1] if ax is None else ax
    places = _places(states, arrows)
    centre = np.mean(list(places.values()), axis=0)
    crowded = len(states) > _LARGEST_CIRCLE  # no space for an arrow from outside: the initial state is grey
    radius = 0.3
    size = 11 if max(map(len, labels.values())) <= 5 else 8
    for (source, target), (text, colour) in arrows.items():
        here, there = places[source], places[target]
        if source == target:
            outwards = _unit(here - centre)
            if source == start:  # the arrow into the initial state comes from outside: leave it the space
                outwards = _turned(outwards, -1.2)
            tip, tail = (here + radius * _turned(outwards, angle) for angle in (-0.5, 0.5))
            far = here + 2.1 * radius * outwards
            style, middle = "arc3,rad=-1.6", far + 0.35 * radius * outwards
            ends = (tail, tip)
        else:
            along = _unit(there - here)
            both_ways = (target, source) in arrows
            bend = 0.18 if both_ways else 0.0
            ends = (here + radius * along, there - radius * along)
            side = np.array([along[1], -along[0]])
            # an arc of this bend bulges by bend / 2 of its length on the side that "arc3" curves to
            length = float(np.linalg.norm(there - here)) - 2 * radius
            # straight arrows may cross in the middle: their label stands nearer to where they start
            share = 0.5 if both_ways else 0.4
            middle = here + share * (there - here) + side * (bend * length / 2 + 0.16)
            style = f"arc3,rad={bend}"
        axes.add_patch(
            FancyArrowPatch(
                *map(tuple, ends),
                connectionstyle=style,
                arrowstyle="-|>",
                mutation_scale=13,
                color=colour,
                linewidth=1.1,
                shrinkA=0,
                shrinkB=0,
            )
        )
        if text:
            axes.text(
                middle[0], middle[1], text, ha="center", va="center", fontsize=10, color=colour, zorder=5
            )
    for state, place in places.items():
        face = "#DDDDDD" if crowded and state == start else "white"
        axes.add_patch(Circle(tuple(place), radius, facecolor=face, edgecolor="black", zorder=2))
        if state in doubled:
            axes.add_patch(Circle(tuple(place), 0.84 * radius, fill=False, edgecolor="black", zorder=3))
        axes.text(place[0], place[1], labels[state], ha="center", va="center", fontsize=size, zorder=4)
    if not crowded:
        inwards = -_unit(places[start] - centre) if len(states) > 1 else np.array([1.0, 0.0])
        tip = places[start] - radius * inwards
        begin = tuple(tip - 0.55 * inwards)
        axes.add_patch(
            FancyArrowPatch(
                begin, tuple(tip), arrowstyle="-|>", mutation_scale=13, shrinkA=0, shrinkB=0, color="black"
            )
        )
    corners = np.array(list(places.values()))
    margin = 1.1
    axes.set_xlim(corners[:, 0].min() - margin, corners[:, 0].max() + margin)
    axes.set_ylim(corners[:, 1].min() - margin, corners[:, 1].max() + margin)
    axes.set_aspect("equal")
    axes.set_axis_off()
    return axes


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


def _figure_size(states: int) -> tuple[float, float]:
    side = 2.6 + 0.5 * min(states, 12) + 0.06 * max(0, states - 12)
    return side, side


def _unit(vector: Point) -> Point:
    length = float(np.linalg.norm(vector))
    return vector / length if length else np.array([0.0, 1.0])


def _turned(vector: Point, angle: float) -> Point:
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return turn @ vector
