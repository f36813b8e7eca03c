"""The gallery: every figure of the paper and of the analyses, drawn when the site is built."""

import io
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from analysis.framework.analysis import Comparison
from analysis.framework.figures import TEXT_WIDTH, styled
from analysis.framework.settings import settings_from
from analysis.questions import question_named
from implicit.runs.loading import load_run
from paper_figures.registry import all_figures
from website.commands import anchor

SHOWN: dict[str, tuple[str, dict[str, Any]]] = {
    "length_generalization": ("parity", {"lengths": [32, 64, 128, 256], "sequences": 32}),
    "jacobian": ("parity-small", {"states": 6, "sequences": 3, "length": 16}),
    "agreement": ("parity", {"sequences": 4, "length": 16, "examples": 3, "starts": 4}),
    "convergence": ("parity", {"sequences": 3, "length": 16}),
    "front_speed": ("parity-small", {"sequences": 3, "length": 48, "walls": 16, "window": 16}),
    "extraction": ("s3", {"sequences": 32, "length": 24, "fresh_words": 8, "times": 2}),
    "mechanism": ("s3", {"sequences": 4, "length": 8, "pairs": 6, "follow": 4, "states": 2}),
    "belief": (
        "lazy-swaps-gated-deltanet",
        {"sequences": 6, "multiples": [1, 2, 4], "probe_sequences": 16, "probe_validation": 4},
    ),
    "error_control": ("parity-small", {"sequences": 16, "length": 48, "block": 8, "pairs": 6, "follow": 8}),
}
"""For each analysis whose figure takes seconds, a stored run and the settings; tests draw them too."""


@dataclass(frozen=True)
class Picture:
    """A figure of the gallery."""

    name: str
    title: str
    caption: str
    command: str
    png: bytes

    @property
    def file(self) -> str:
        """Where it lies on the site."""
        return f"gallery/{self.name}.png"


def pictures() -> list[Picture]:
    """Draw all figures: of the paper from results or published numbers, of analyses from a stored run."""
    return [_of_paper(name) for name in all_figures()] + [_of_analysis(name) for name in SHOWN]


def gallery_page(shown: list[Picture]) -> str:
    """Return the page."""
    lines = [
        "# Gallery",
        "",
        "All figures, drawn when this site was built: those of the paper from the results stored with the "
        "package, or from published tables, which the picture then says; those of analyses from a stored "
        "run, with fewer sequences than by default. The command below a figure draws it.",
    ]
    for picture in shown:
        lines += ["", f"## {picture.title}", "", f"![{picture.title}]({picture.file})", ""]
        lines += [picture.caption, "", f"`{picture.command}`"]
    return "\n".join(lines) + "\n"


def _of_paper(name: str) -> Picture:
    figure = all_figures()[name]
    results = figure.results()
    command = f"python -m paper_figures {name}"
    return Picture(name, figure.title, figure.caption(results), command, _png(figure.picture(results)))


def _of_analysis(name: str) -> Picture:
    question = question_named(name)
    run, chosen = SHOWN[name]
    settings = settings_from(question.settings, chosen)
    measure: Any = question.compare if isinstance(question, Comparison) else getattr(question, "measure")  # noqa: B009
    assert question.draw is not None
    loaded = load_run(run)
    answer = measure(loaded, settings)
    drawn = question.draw(answer, TEXT_WIDTH)
    title = f"{name.replace('_', ' ').capitalize()} of {run}"
    caption = (
        f"{question.question} {question.caption_of([loaded], answer)}\n\nSee [`analysis.{name}`]"
        f"(commands.md#{anchor(f'analysis.{name}')})."
    )
    flags = " ".join(f"--{key.replace('_', '-')} {_flag(value)}" for key, value in chosen.items())
    return Picture(
        f"analysis-{name}", title, caption, f"python -m analysis.{name} {run} {flags}".rstrip(), _png(drawn)
    )


def _flag(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _png(figure: Figure) -> bytes:
    written = io.BytesIO()
    with styled():
        figure.savefig(written, format="png", metadata={"Software": None})
    return written.getvalue()
