"""``report.md``: what ``report.json`` says, for people."""

from collections.abc import Iterable, Mapping
from typing import Any

Report = Mapping[str, Any]

WHAT_IS_VERIFIED = """\
- **Theorem 1** is checked at each listed state by floating-point measurement (float64), not by proof: every
  threshold is ten times an error that was measured by an independent computation (finite differences of the
  actual transition, the fixed point solved anew). It says nothing about states that were not visited.
- States without a fixed point are counted as inconclusive. The verdict for a run is that over all visited
  states with a fixed point.
- **Accuracy** is the mean over the last ten tokens of fresh random sequences; the intervals are Wilson's,
  with sequences as the independent units. Nothing follows for longer sequences than those measured.
- **Agreement** of the two modes is measured on the given sequences. The search for other fixed points starts
  from a few random latents: a fixed point that repels the iteration or whose basin was not hit is not found.
- Each figure is of one training run. How other seeds fare is not part of this report."""


def markdown(report: Report) -> str:
    """Return the report as Markdown; figures are linked by paths relative to its folder.

    Args:
        report: the content of ``report.json``.

    Example:
        >>> spread = {"min": 0.1, "median": 0.2, "max": 0.3}
        >>> theorem = {"sentence": "Theorem 1 fails", "reasons": {"fails: linear": 64}, "verdict": "fails"}
        >>> from theory.theorem1.report import QUANTITIES
        >>> model = {
        ...     "model": "mamba2", "task": "parity", "parameters": 9, "training_length": 32,
        ...     "training_steps": 5, "training_seconds": 1.5, "seed": 0, "weights_sha256": "ab" * 32,
        ...     "accuracy": {"32": 0.5}, "accuracy_interval": {"32": [0.4, 0.6]}, "chance": 0.5,
        ...     "block_masses": None,
        ...     "theorem1": {**theorem, **dict.fromkeys(QUANTITIES, spread)},
        ... }
        >>> environment = {"python": "3.11", "torch": "2.13"}
        >>> text = markdown({
        ...     "seconds": 60, "parts": {}, "command": "make demo", "settings": {"sequences": 256, "seed": 0},
        ...     "environment": environment, "models": {"mamba2": model},
        ... })
        >>> "| mamba2 | 9 | 0.500 (0.400–0.600) | fails |" in text
        True
    """
    models: dict[str, Any] = dict(report["models"])
    first = next(iter(models.values()))
    lengths = list(first["accuracy"])
    sections = [
        f"# State tracking on {', '.join(dict.fromkeys(model['task'] for model in models.values()))}",
        "Is the state transition of a trained model non-linear and non-diagonal, as Theorem 1 says of "
        "implicit state-space models, and does the model generalise to longer sequences? Runs analysed: "
        f"{len(models)}, on sequences of a stream that no training draws from.",
        *_agreement_warnings(models),
        "## In short",
        _table(
            ["run", "parameters", *(f"accuracy at {length}" for length in lengths), "Theorem 1"],
            [
                [name, str(model["parameters"]), *_accuracies(model), model["theorem1"]["verdict"]]
                for name, model in models.items()
            ],
        ),
        f"Accuracy: mean over the last ten tokens of {report['settings']['sequences']} sequences, with 95% "
        f"intervals; guessing gives {first['chance']:.3g}.",
        "![Accuracy against length](analysis/length_generalization.png)",
        "## What was trained",
        _table(
            ["run", "model", "task", "length", "steps", "seconds", "seed", "SHA-256 of the weights"],
            [
                [
                    name,
                    model["model"],
                    model["task"],
                    str(model["training_length"]),
                    _shown(model["training_steps"]),
                    _shown(model["training_seconds"]),
                    str(model["seed"]),
                    f"`{model['weights_sha256'][:16]}…`",
                ]
                for name, model in models.items()
            ],
        ),
    ]
    for name, model in models.items():
        sections += [f"## {name}", *_theorem1(name, model)]
        if "agreement" in model:
            sections += [*_agreement(name, model), *_convergence(name, model)]
    sections += [
        "## What is verified and what is not",
        WHAT_IS_VERIFIED,
        "## How to reproduce",
        *_reproduce(report),
    ]
    return "\n\n".join(sections) + "\n"


def _theorem1(name: str, model: Mapping[str, Any]) -> list[str]:
    found = model["theorem1"]
    quantities = {
        "residual": "C1: residual ‖Φ(z\\*) − z\\*‖",
        "smallest_singular_value": "C2: smallest singular value of I − ∂zΦ",
        "spectral_radius": "C3: spectral radius of the damped iteration",
        "off_diagonal_mass": "off-diagonal mass of J = ∂h'/∂h, relative to ‖J‖",
        "nonlinearity": "nonlinearity: change of J between two states, relative to ‖J‖",
    }
    lines = [
        f"**{found['sentence']}.**",
        "\n".join(f"- {count} states: {reason}" for reason, count in found["reasons"].items()),
        _table(
            ["measured", "min", "median", "max"],
            [
                [label, *(_shown(found[quantity][part]) for part in ("min", "median", "max"))]
                for quantity, label in quantities.items()
            ],
        ),
    ]
    if model["block_masses"]:
        masses = ", ".join(f"{part} {_shown(mass)}" for part, mass in model["block_masses"].items())
        lines.append(f"Frobenius mass of the parts of ds'/ds, relative to the whole: {masses}.")
    return [*lines, f"![Jacobian of {name}](analysis/{name}/jacobian.png)"]


def _agreement(name: str, model: Mapping[str, Any]) -> list[str]:
    found = model["agreement"]
    sentence = found["sentence"][0].upper() + found["sentence"][1:]
    several = [search for search in found["fixed_points"] if len(search["fixed_points"]) > 1]
    lines = [
        "### Do the two modes agree?",
        _red(sentence) if not found["is_demanded"] else f"{sentence}.",
        f"Of {len(found['fixed_points'])} tokens at which other fixed points were searched, "
        f"{len(several)} have more than one.",
    ]
    shown = several if found["is_demanded"] else found["fixed_points"]
    if shown:
        lines.append(_table(*_fixed_points(shown, model["state_names"])))
    return [*lines, f"![Agreement of the modes of {name}](analysis/{name}/agreement.png)"]


def _fixed_points(
    searches: Iterable[Mapping[str, Any]], names: list[str]
) -> tuple[list[str], list[list[str]]]:
    header = [
        "sequence",
        "position",
        "why",
        "right answer",
        "fixed point decodes",
        "starts",
        "reached by",
        "spectral radius",
    ]
    rows = []
    for search in searches:
        where = [str(search["sequence"]), str(search["position"]), search["reason"], names[search["label"]]]
        rows += [
            [
                *where,
                names[point["answer"]],
                str(point["starts"]),
                ", ".join(point["reached_by"]) or "random starts or zero only",
                f"{point['spectral_radius']:.3f}",
            ]
            for point in search["fixed_points"]
        ]
        if search["unconverged"]:
            rows.append([*where, "did not converge", str(search["unconverged"]), "–", "–"])
    return header, rows


def _agreement_warnings(models: Mapping[str, Any]) -> list[str]:
    return [
        _red(f"{name}: less than {model['agreement']['demanded']:.1%} of the tokens agree between the modes")
        for name, model in models.items()
        if "agreement" in model and not model["agreement"]["is_demanded"]
    ]


def _convergence(name: str, model: Mapping[str, Any]) -> list[str]:
    lines = [
        f"{mode}: {found['share_converged']:.2%} of tokens converged, "
        f"{found['mean_iterations']:.1f} self-iterations a token"
        for mode, found in model["convergence"].items()
    ]
    return [
        "### How the fixed points are found",
        "\n".join(f"- {line}" for line in lines),
        f"![Convergence of {name}](analysis/{name}/convergence.png)",
    ]


def _reproduce(report: Report) -> list[str]:
    environment = ", ".join(
        f"{key} {value}" for key, value in report["environment"].items() if value is not None
    )
    return [
        f"```\n{report['command']}\n```",
        f"It took {report['seconds']:.0f} seconds. Test sequences: seed {report['settings']['seed']}. "
        f"Environment: {environment}.",
        "All numbers are in `report.json` and in the JSON beside each figure, which is also there as PDF.",
        *(
            [_table(["part", "seconds"], [[part, f"{taken:.1f}"] for part, taken in report["parts"].items()])]
            if report["parts"]
            else []
        ),
    ]


def _accuracies(model: Mapping[str, Any]) -> list[str]:
    cells = []
    for length, accuracy in model["accuracy"].items():
        low, high = model["accuracy_interval"][length]
        cells.append(f"{accuracy:.3f} ({low:.3f}–{high:.3f})")
    return cells


def _red(sentence: str) -> str:
    # Some viewers drop the colour: the mark stays.
    return f'<span style="color:#c00000">🔴 **{sentence}.**</span>'


def _table(header: list[str], rows: Iterable[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
