"""S5 for every family: grids of training runs, small and at the size of the paper, and their accuracy."""

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.length_generalization import LengthSettings, analyse
from implicit.runs.loading import Run
from paper_figures.experiments.grid import Grid, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.groups import Group
from paper_figures.figures.published_setting import (
    PUBLISHED_ATTENTION,
    PUBLISHED_DELTA,
    PUBLISHED_LENGTH,
    PUBLISHED_MAMBA2,
    PUBLISHED_TRAINING,
    PUBLISHED_WIDTH,
)
from paper_figures.figures.trained import left_out_words, phases_words, training_settings, updates_words

TASK = "S5-generators"
TASK_WORDS = {
    TASK: "Tokens are the identity and four permutations that generate S5.",
    "S5": "Tokens are all 120 permutations.",
}
"""What the tokens are, by task."""
SETTINGS = LengthSettings(
    lengths=(4, 8, 16, 32, 64, 128, 256, 512, 1024), sequences=256, mode="sequential", seed=0
)
POSITIONS = 32
"""Of so many first tokens the accuracy is stored by position."""

TRAINING: dict[str, Any] = {
    "task": TASK,
    "length": 32,
    "steps": 2000,
    "start_length": 4,
    "length_growth": 4,
    "length_growth_every": 100,
    "growth_accuracy": None,
    "carried_after": 1200,
}
"""The same sequences for every model: their length follows the number of the update, not the accuracy."""
REFLECTING = {"negative_eigenvalues": True}
"""Of the delta rules: eigenvalues in [-1, 1], so that a step can reflect."""
SEEDS = range(3)
LAYERS = (1, 2, 4)
GRIDS = (
    Grid({"model": ["implicit-mamba2", "lstm"], "seed": SEEDS}, {**TRAINING, "layers": 1}),
    Grid({"model": ["mamba2"], "layers": LAYERS, "seed": SEEDS}, TRAINING),
    Grid(
        {"model": ["deltanet", "gated-deltaproduct"], "layers": LAYERS, "seed": SEEDS},
        {**TRAINING, **REFLECTING},
    ),
    Grid({"model": ["transformer"], "layers": LAYERS[1:], "seed": SEEDS}, TRAINING),
)
"""One implicit layer, and every other family at several depths."""


def measure(run: Run, settings: LengthSettings) -> dict[str, Any]:
    """Measure the accuracy of a run at every length, and at each of the first tokens.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = measure(load_run("parity"), LengthSettings(lengths=(4,), sequences=2))
        >>> sorted(found), found["by_position"]
        (['accuracy', 'by_position', 'chance', 'interval', 'share_converged'], [1.0, 1.0, 1.0, 1.0])
    """
    (numbers,) = analyse(run, settings).numbers().values()
    kept = {name: numbers[name] for name in ("accuracy", "interval", "share_converged", "chance")}
    return {**kept, "by_position": [float(share) for share in numbers["accuracy_by_position"][:POSITIONS]]}


ACCURACY = Measurement("accuracy", measure, SETTINGS)

FULL_TRAINING: dict[str, Any] = {**PUBLISHED_TRAINING, "task": "S5", "length": PUBLISHED_LENGTH}
FULL_IMPLICIT: dict[str, Any] = {**FULL_TRAINING, **PUBLISHED_MAMBA2, "layers": 1}
"""Of the implicit model, which other figures look at, too."""
FULL_LAYERS = (1, 2, 4, 8, 16)
FULL_GRIDS = (
    Grid({"model": ["implicit-mamba2"], "seed": SEEDS}, FULL_IMPLICIT),
    Grid({"model": ["lstm"], "seed": SEEDS}, {**FULL_TRAINING, "d_model": PUBLISHED_WIDTH, "layers": 1}),
    Grid({"model": ["mamba2"], "layers": FULL_LAYERS, "seed": SEEDS}, {**FULL_TRAINING, **PUBLISHED_MAMBA2}),
    Grid(
        {"model": ["deltanet", "gated-deltaproduct"], "layers": FULL_LAYERS[:3], "seed": SEEDS},
        {**FULL_TRAINING, **PUBLISHED_DELTA, **REFLECTING},
    ),
    Grid(
        {"model": ["transformer"], "layers": FULL_LAYERS[1:], "seed": SEEDS},
        {**FULL_TRAINING, **PUBLISHED_ATTENTION},
    ),
)
"""At the size of the paper: every permutation is a token, all sequences have 32 of them."""


def task_and_length(outcomes: Sequence[Outcome]) -> tuple[str, int]:
    """Return the task of the runs and the length that they were trained at; those of the small grid if none.

    Example:
        >>> task_and_length([])
        ('S5-generators', 32)
    """
    config = (outcomes[0].point if outcomes else GRIDS[0].points[0]).config
    return str(config.task), config.length


def trained_as(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return what the runs have in common in training, for `training_sentence`.

    Example:
        >>> found = trained_as([])
        >>> found["task"], found["length"], found["steps"], found["start_length"]
        ('S5-generators', 32, 2000, 4)
    """
    point = outcomes[0].point if outcomes else GRIDS[0].points[0]
    curriculum = point.config.curriculum
    parameters = [outcome.run["parameters"] for outcome in outcomes if "parameters" in outcome.run]
    return {
        **training_settings(point),
        "length_growth": curriculum.length_growth,
        "length_growth_every": curriculum.length_growth_every,
        "carried_after": curriculum.carried_after,
        "parameters": [min(parameters), max(parameters)] if parameters else [],
    }


def family(group: Group) -> tuple[str, int]:
    """Return the model and the number of layers of a group.

    Example:
        >>> family({"settings": {"model": "mamba2", "layers": 4}})
        ('mamba2', 4)
    """
    return group["settings"]["model"], group["settings"].get("layers", 1)


def training_sentence(training: Mapping[str, Any]) -> str:
    """Say how the models of this experiment were trained, and where they differ.

    Args:
        training: as `trained_as` returns it. Sequences that are of one length from the start are those of the
            published setting.

    Example:
        >>> training_sentence(trained_as([]))
        'All models saw sequences of the same lengths, 4 tokens and 4 more every 100 updates up to 32, ...'
    """
    differ = (
        f"parameters {_range(training['parameters'])} and sizes of the state differ, and so does the work "
        "per update: the implicit model alone iterates"
    )
    told = _at_one_length if training["start_length"] is None else _growing
    return (
        f"{told(training, differ)} Delta rules have eigenvalues in [-1, 1]. What a family did not learn in "
        "this setting is not shown to be out of its reach."
    )


def _at_one_length(training: Mapping[str, Any], differ: str) -> str:
    """How the models were trained in the published setting."""
    return (
        f"All models: {updates_words(training)}, and one learning rate, {training['learning_rate']:g}, that "
        f"of the public code of the paper; {differ}, {phases_words(training)}. {left_out_words(training)}"
    ).strip()


def _growing(training: Mapping[str, Any], differ: str) -> str:
    """How they were trained on sequences that grow; results from before it was told are of runs penalised."""
    penalty = "" if training.get("contraction_weight") == 0 else ", and has a penalty on its self-map"
    carried = (
        f"After {training['carried_after']:,} updates {training['carried_share']:.0%} of the sequences whose "
        "last answers were right went on in the next batch, except for the Transformer; which ones depends "
        "on the model."
    )
    return (
        f"All models saw sequences of the same lengths, {training['start_length']} tokens and "
        f"{training['length_growth']} more every {training['length_growth_every']} updates up to "
        f"{training['length']}, in batches of {training['batch_size']}, for {training['steps']:,} updates, "
        f"with width {training['width']} and one learning rate, {training['learning_rate']:g}, chosen on "
        f"implicit Mamba-2; {differ}{penalty}. {carried if training['carried_share'] else ''}"
    ).strip()


def _range(numbers: Sequence[int]) -> str:
    return f"({numbers[0]:,} to {numbers[-1]:,})" if numbers else "(no runs)"
