"""S5 trained with the exact gradient and with phantom gradients, and how far off phantom gradients are."""

import copy
from functools import partial
from typing import Any

import torch
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from analysis.framework.needs import as_implicit
from analysis.framework.palette import Look
from implicit.checked_config import CheckedConfig
from implicit.fixed_point import Solution, Stopping
from implicit.gradients import GradientRule, Phantom
from implicit.gradients.rules import FactoredImplicit
from implicit.models.interface import FixedPointModel
from implicit.modes import Solve, Windowed
from implicit.runs.loading import Run
from implicit.training.streams import Stream, draw_batch
from paper_figures import figure as pf


class ReachSettings(CheckedConfig):
    """Between which tokens gradients are compared, and which."""

    steps: tuple[PositiveInt, ...] = (1, 4, 16, 64)  # steps of phantom gradients
    sequences: PositiveInt = 16  # sequences
    length: PositiveInt = 24  # tokens of a sequence
    rtol: PositiveFloat = 1e-9  # relative tolerance of the fixed points, float64
    max_iterations: PositiveInt = 4000  # the most self-iterations per token
    seed: NonNegativeInt = 0  # seed of the sequences and of the direction


def gradient_reach(run: Run, settings: ReachSettings) -> dict[str, Any]:
    """Compare phantom gradients with the exact one, by the distance between two tokens.

    The derivative of a random direction of the last token's latent by the embedding of each token before it
    is taken in float64, by the exact rule and by phantom steps. Their distance over all sequences is divided
    by the norm of the exact one.

    Returns:
        ``share_converged`` of the tokens; ``norm`` of the exact derivative, and ``distance`` by steps: a
        number for every distance between the two tokens, from 0. Both are empty if some token did not reach
        its fixed point, where no gradient is the exact one.
    """
    model = copy.deepcopy(as_implicit(run)).double()
    drawn = draw_batch(run.task, settings.sequences, settings.length, settings.seed, Stream.TEST)
    tokens = drawn.tokens.to(model.device)
    stopping = Stopping(rtol=settings.rtol, max_iterations=settings.max_iterations)
    with torch.no_grad():
        solution = model.fixed_points(tokens, solve=Solve(Windowed(block=None), stopping=stopping))
    if not bool(solution.converged.all()):
        return {"share_converged": solution.share_converged, "norm": [], "distance": {}}
    generator = torch.Generator().manual_seed(settings.seed)
    direction = torch.randn(solution.value.shape[-1], generator=generator, dtype=torch.float64).to(
        model.device
    )
    exact = _derivative(model, tokens, solution, FactoredImplicit(), direction)
    norm = exact.norm(dim=(0, 2)).flip(0)
    distance = {}
    for steps in settings.steps:
        apart = _derivative(model, tokens, solution, Phantom(steps), direction) - exact
        distance[str(steps)] = (apart.norm(dim=(0, 2)).flip(0) / norm).tolist()
    return {"share_converged": 1.0, "norm": norm.tolist(), "distance": distance}


def _derivative(
    model: FixedPointModel, tokens: Tensor, solution: Solution, rule: GradientRule, direction: Tensor
) -> Tensor:
    """The derivative of a direction of the last latent in the embeddings of all tokens."""
    embedded: list[Tensor] = []
    hook = model.get_submodule("embedding").register_forward_hook(
        lambda _module, _inputs, output: embedded.append(output)
    )
    try:
        problem = model.problem(tokens)
    finally:
        hook.remove()
    value = rule.attach(problem, model.solver, model.stopping, solution).value
    (found,) = torch.autograd.grad((value[:, -1] @ direction).sum(), embedded[-1])
    return found


REACH = ReachSettings()
RULES = {
    "implicit": ("exact gradient", Look("#0072B2", "o")),
    "phantom": ("4 phantom steps", Look("#D55E00", "s", "--")),
}
STEPS = {
    1: Look("#CC79A7", "v", ":"),
    4: Look("#D55E00", "s", "--"),
    16: Look("#009988", "^", "-."),
    64: Look("#000000", "o"),
}


def _distance(steps: int, run: pf.MeasuredRun) -> tuple[range, list[float]] | None:
    """Return the distance by tokens back; None where a token did not reach its fixed point."""
    found = run.values["distance"]
    return (range(REACH.length), found[str(steps)]) if found else None


FIGURE = pf.Figure(
    title="Exact and phantom gradients on S5",
    section="Training",
    claim=pf.Claim(
        "phantom gradients of four steps train an implicit SSM that tracks S5 beyond its training length",
        pf.IMPLICIT_ARE_RNNS,
        pf.ShareOfRuns("accuracy@256", least=0.99, row="4 phantom steps", at="256 tokens"),
    ),
    runs=(
        pf.Grid(
            {"free_gradient": list(RULES), "seed": range(3)},
            {"task": "S5-generators", "model": "implicit-mamba2", "carried_share": 0.0},
        ),
    ),
    measure=(
        pf.accuracy_at(40, 64, 128, 256, 512, 1024, sequences=256, rtol=0.01),
        pf.Measurement(
            "gradient_reach",
            gradient_reach,
            REACH,
            {"norm": "norm", "distance": "distance", "share_converged": "reach_converged"},
        ),
    ),
    label=lambda settings: RULES[settings["free_gradient"]][0],
    looks=lambda settings: RULES[settings["free_gradient"]][1],
    panels=[
        pf.Lines("accuracy", title="trained with", chance=(1 / 120,), trained=(40,)),
        pf.Lines(
            {
                f"{steps} phantom step{'s' * (steps > 1)}, distance": (partial(_distance, steps), look)
                for steps, look in STEPS.items()
            },
            xlabel="tokens back",
            ylabel="distance from the exact gradient,\nrelative to its norm",
            title="phantom gradients of trained models",
            xscale="linear",
            ylim=(-0.04, 1.3),
            markers=False,
        ),
    ],
    layout=pf.Layout(columns=(2, 1), height=(3.2, 5.8), share=("none", "none"), legend=(2, 1)),
)
