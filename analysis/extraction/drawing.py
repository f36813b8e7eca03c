"""The figure of `analysis.extraction`: the automaton, the states behind it, and how long it holds."""

from collections import defaultdict

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from analysis.extraction.measurement import ExtractionAnalysis
from analysis.framework.figures import TEXT_WIDTH, legend_below, new_panels, styled
from analysis.framework.palette import GREY, QUANTITY_LOOKS, RED
from automata.drawing import COLORS, draw_dfa_or_table
from automata.drawn_labels import in_legend, show_plainly
from automata.machines.dfa import DFA
from automata.machines.mealy import MealyMachine

LARGEST_SHOWN = 24
"""An automaton of more states is given in the JSON only."""


def draw(found: ExtractionAnalysis, width: float = TEXT_WIDTH) -> Figure:
    """Draw the automaton, if small, the visited states coloured by class, and the fidelity by position.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> from analysis.extraction.measurement import analyse
        >>> figure = draw(analyse(load_run("parity"), sequences=8, length=8, fresh_words=4))
        >>> [axes.get_title() for axes in figure.axes]
        ['extracted automaton', 'visited states by class', 'fresh words']
    """
    with styled():
        figure, (automaton, states, positions) = new_panels(
            width,
            3,
            f"{found.run.title}\n{_shortened(found.sentence)}",
            height=2.7,
            color="black" if found.verdict == "equivalent" else RED,
        )
        automaton.set_title("extracted automaton")
        _draw_states(states, found)
        _draw_positions(positions, found)
        show_plainly(*figure.findobj(Text))
        _draw_automaton(automaton, found)
        return figure


def drawn_dfa(machine: MealyMachine) -> DFA:
    """Return the transition graph of a machine as an automaton to draw, states by number.

    Example:
        >>> drawn_dfa(MealyMachine([[0, 1], [1, 0]], [[0, 1], [1, 0]])).states
        ('0', '1')
    """
    return DFA.from_table(machine.table, machine.initial, states=[str(q) for q in range(machine.state_count)])


def state_labels(found: ExtractionAnalysis) -> list[str]:
    """Return for every state of the automaton the answers that lead to it, at most three.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> from analysis.extraction.measurement import analyse
        >>> state_labels(analyse(load_run("parity"), sequences=8, length=8, fresh_words=4))
        ['0', '1']
    """
    machine, names = found.extraction.machine, found.task.state_names
    if machine is None:
        return []
    answers: defaultdict[int, set[int]] = defaultdict(set)
    for target, answer in zip(machine.table.ravel().tolist(), machine.answers.ravel().tolist(), strict=True):
        answers[target].add(answer)
    return [
        "/".join(names[answer] for answer in sorted(answers[state])[:3]) or "-"
        for state in range(machine.state_count)
    ]


def _draw_automaton(axes: Axes, found: ExtractionAnalysis) -> None:
    machine = found.extraction.machine
    if machine is None or machine.state_count > LARGEST_SHOWN:
        size = "too many" if machine is None else str(machine.state_count)
        axes.set_axis_off()
        axes.text(0.5, 0.5, f"{size} states", ha="center", va="center", transform=axes.transAxes)
    else:
        labels: dict[object, str] = {str(state): label for state, label in enumerate(state_labels(found))}
        dfa = drawn_dfa(machine)
        symbols = dict(zip(dfa.alphabet, found.task.token_names, strict=True))
        transitions = {
            state: {symbols[symbol]: target for symbol, target in row.items()}
            for state, row in dfa.transitions.items()
        }
        draw_dfa_or_table(DFA(dfa.states, symbols.values(), transitions, dfa.initial, ()), axes, labels)
        if axes.tables:
            axes.set_title("extracted automaton:\nnext state by state and token")


def _draw_states(axes: Axes, found: ExtractionAnalysis) -> None:
    """Project the visited states to their first two principal components."""
    vectors, classes = found.extraction.vectors, found.extraction.visited_class
    centred = vectors - vectors.mean(dim=0)
    # The eigenvectors of the smaller of the two matrices of inner products are the cheaper way.
    if centred.shape[0] < centred.shape[1]:
        values, basis = torch.linalg.eigh(centred @ centred.T)
        places = basis[:, -2:] * values[-2:].clamp_min(0).sqrt()
    else:
        values, basis = torch.linalg.eigh(centred.T @ centred)
        places = centred @ basis[:, -2:]
    reachable = classes < found.extraction.reachable
    # a state of one number has one component only
    first, second = (places.flip(dims=(1,)) if places.shape[1] > 1 else places.repeat(1, 2)).T.numpy()
    labels = state_labels(found)
    # more classes than colours cannot be told apart, and merged ones have no name of their own
    named = len(labels) == found.extraction.reachable <= len(COLORS)
    for number in np.unique(classes[reachable]).tolist():
        axes.scatter(
            first[classes == number],
            second[classes == number],
            s=5,
            color=COLORS[number % len(COLORS)],
            linewidths=0,
            label=in_legend(labels[number]) if named else None,
        )
    if not reachable.all():
        axes.scatter(first[~reachable], second[~reachable], s=10, c=GREY, marker="x", label="stray")
    if axes.get_legend_handles_labels()[1]:
        legend_below(axes, columns=3)
    share = float(values[-2:].sum() / values.sum().clamp_min(torch.finfo(values.dtype).tiny))
    axes.set(
        title="visited states by class",
        xlabel="first principal component",
        ylabel=f"second ({share:.0%} of variance in both)",
    )


def _draw_positions(axes: Axes, found: ExtractionAnalysis) -> None:
    x = np.arange(1, found.agrees.shape[1] + 1)
    axes.plot(
        x,
        found.correct.mean(axis=0),
        color=QUANTITY_LOOKS["accuracy"].color,
        linewidth=3,
        label="accuracy (model right)",
    )
    axes.plot(
        x,
        found.agrees.mean(axis=0),
        color=QUANTITY_LOOKS["fidelity"].color,
        label="fidelity (model as automaton)",
    )
    axes.axvline(found.length, color=GREY, linestyle="--", linewidth=0.8, label="length of the sequences")
    axes.set(title="fresh words", xlabel="position of the token", ylabel="share of words", ylim=(-0.02, 1.03))
    legend_below(axes)


def caption(found: ExtractionAnalysis) -> str:
    """Tell what is drawn, and the finding.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> from analysis.extraction.measurement import analyse
        >>> caption(analyse(load_run("parity"), sequences=8, length=8, fresh_words=4)).split(",")[0]
        'Automaton extracted from the states that 8 sequences of 8 tokens visit (data seed 0): equivalent ...'
    """
    settings = found.settings
    return (
        f"Automaton extracted from the states that {settings.sequences} sequences of {found.length} tokens "
        "visit "
        f"(data seed {settings.seed}): {found.sentence}. A state is named by the answers that lead to it; a "
        "graph "
        "whose labels would overlap is given as its transition table, a row for every state and a column "
        "for every "
        "token, the initial state first. Visited states are coloured by class, projected to their first two "
        f"principal components. Accuracy and fidelity are shares of {found.agrees.shape[0]} fresh words."
    )


def _shortened(sentence: str, width: int = 150) -> str:
    return sentence if len(sentence) <= width else f"{sentence[: width - 1]}…"
