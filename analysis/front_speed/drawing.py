"""The figure of `analysis.front_speed`: errors over tokens and sweeps, and the fronts that were foretold."""

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from analysis.framework.figures import TEXT_WIDTH, legend_below, new_panels, styled
from analysis.framework.palette import RED
from analysis.front_speed.measurement import FrontSpeedAnalysis


def draw(found: FrontSpeedAnalysis, width: float = TEXT_WIDTH) -> Figure:
    """Draw for every run the errors of one sequence with the front that walls foretell.

    Example:
        >>> from analysis.front_speed.measurement import analyse
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity-small"), sequences=1, length=8, walls=4, window=8)
        >>> [axes.get_xlabel() for axes in draw(found).axes if axes.get_xlabel()]
        ['position of the token', 'relative error']
    """
    level = found.settings.level
    with styled():
        figure, panels = new_panels(width, len(found.runs), height=2.9)
        for axes, each in zip(panels, found.runs, strict=True):
            length = each.errors.shape[1]
            shading = axes.imshow(
                np.maximum(each.errors, 1e-12),
                norm=LogNorm(level / 1e3, 2, clip=True),
                aspect="auto",
                origin="lower",
                cmap="Greys",
                extent=(0.5, length + 0.5, -0.5, len(each.errors) - 0.5),
            )
            begin = each.measured.begin
            arrival = each.measured.arrivals[0]
            axes.step(
                np.arange(1, length + 1),
                arrival,
                where="mid",
                color="black",
                label=f"below {level:g}: {each.measured.speed:.2f} ± {each.measured.error:.2f}",
            )
            # what is foretold is a slope; it is drawn from where the measured front has formed
            tokens = np.array([begin, length - 1])
            axes.plot(
                tokens + 1,
                arrival[begin] + (tokens - begin) / each.wall.speed,
                "--",
                color=RED,
                label=f"walls: {each.wall.speed:.2f} ± {each.wall.error:.2f}",
            )
            axes.set(title=each.run.name, xlabel="position of the token", ylabel="sweep")
            axes.grid(visible=False)
            legend_below(axes, title="tokens per sweep")
        figure.colorbar(
            shading,
            ax=panels[-1],
            label="relative error",
            orientation="horizontal",
            location="top",
            format="%g",  # powers of ten would be smaller than the rest
        )
        return figure


def caption(found: FrontSpeedAnalysis) -> str:
    """Tell what is drawn, with the speeds.

    Example:
        >>> from analysis.front_speed.measurement import analyse
        >>> from implicit.runs.loading import load_run
        >>> caption(analyse(load_run("parity-small"), sequences=1, length=8, walls=4, window=8))[:63]
        'Error ‖z − z*‖ / ‖z*‖ of one sequence of each run over the swee'
    """
    settings = found.settings
    each = "; ".join(f"{one.run.name}: {one.sentence}" for one in found.runs)
    return (
        "Error ‖z − z*‖ / ‖z*‖ of one sequence of each run over the sweeps of the simultaneous mode from "
        "z = 0, z* the sequential answer, float64. Line: where it and all before it stay below "
        f"{settings.level:g}; speeds are means over {settings.sequences} sequences of {settings.length} "
        "tokens, without their first quarter, with standard errors. Dashed: the slope foretold from "
        f"{settings.walls} walls in windows of {settings.window} other tokens, drawn from where the front "
        f"has formed. {each}."
    )
