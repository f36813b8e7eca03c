"""The figures of the paper, in the order of the paper."""

from automata.errors import unknown_name
from paper_figures.figures import (
    adversarial_beliefs,
    agreement_in_training,
    belief_bridge,
    bounded_and_free,
    catbabi,
    convergence,
    curricula,
    depth,
    error_control,
    few_hard_tokens,
    gradients,
    hard_tokens_in_training,
    hard_tokens_on_a5,
    hidden_swaps,
    implicit_twins,
    iterations_at_test,
    iterations_needed,
    jacobians,
    jacobians_in_training,
    length_generalization,
    puzzles,
    recipes,
    repl_spacing,
    repl_traces,
    s5_length_generalization,
    s5_recipe,
    wikitext2,
    wikitext2_iterations,
)
from paper_figures.figures.figure import PaperFigure
from paper_figures.figures.published import FIGURE as LANGUAGE_MODELS
from paper_figures.figures.published_figure import PublishedFigure
from paper_figures.figures.published_neighbours import FIGURE as NEIGHBOURS

AnyFigure = PaperFigure | PublishedFigure

FIGURES: dict[str, PaperFigure] = {
    figure.name: figure
    for figure in (
        jacobians.FIGURE,
        jacobians_in_training.FIGURE,
        convergence.FIGURE,
        length_generalization.FIGURE,
        s5_length_generalization.FIGURE,
        depth.FIGURE,
        curricula.FIGURE,
        recipes.FIGURE,
        s5_recipe.FIGURE,
        gradients.FIGURE,
        bounded_and_free.FIGURE,
        iterations_at_test.FIGURE,
        iterations_needed.FIGURE,
        agreement_in_training.FIGURE,
        few_hard_tokens.FIGURE,
        hard_tokens_in_training.FIGURE,
        hard_tokens_on_a5.FIGURE,
        error_control.FIGURE,
        implicit_twins.FIGURE,
        wikitext2.FIGURE,
        wikitext2_iterations.FIGURE,
        catbabi.FIGURE,
        repl_traces.FIGURE,
        repl_spacing.FIGURE,
        hidden_swaps.FIGURE,
        adversarial_beliefs.FIGURE,
        belief_bridge.FIGURE,
        puzzles.FIGURE,
    )
}
"""Those of experiments."""

PUBLISHED: dict[str, PublishedFigure] = {figure.name: figure for figure in (LANGUAGE_MODELS, NEIGHBOURS)}
"""Those of numbers that others published."""


def all_figures() -> dict[str, AnyFigure]:
    """Return the figures of experiments, then those of published numbers.

    Example:
        >>> list(all_figures())[-2:]
        ['published', 'published_neighbours']
    """
    return {**FIGURES, **PUBLISHED}


def figure_named(name: str) -> AnyFigure:
    """Return a figure.

    Raises:
        InputError: for an unknown name, with the nearest known one.

    Example:
        >>> figure_named("jacobians").title
        'State-to-state Jacobians, explicit and implicit'
        >>> figure_named("jacobian")
        Traceback (most recent call last):
        automata.errors.InputError: figure 'jacobian' is unknown; did you mean 'jacobians'? Known: ...
    """
    figures = all_figures()
    if name not in figures:
        raise unknown_name("figure", name, figures)
    return figures[name]
