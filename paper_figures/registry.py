"""The figures of the paper, in the order of the paper."""

from automata.errors import unknown_name
from paper_figures.figures import (
    convergence,
    curricula,
    depth,
    implicit_twins,
    iterations_at_test,
    jacobians,
    jacobians_in_training,
    length_generalization,
    s5_length_generalization,
)
from paper_figures.figures.figure import PaperFigure

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
        iterations_at_test.FIGURE,
        implicit_twins.FIGURE,
    )
}


def figure_named(name: str) -> PaperFigure:
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
    if name not in FIGURES:
        raise unknown_name("figure", name, FIGURES)
    return FIGURES[name]
