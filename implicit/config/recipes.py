"""Good settings for each task, found by trial; every explicit model takes those of the implicit one.

Explicit models ignore the settings of the fixed point. A Transformer begins every sequence anew. Where
accuracy ends training, or lengthens sequences, the number of steps depends on the model.
"""

from typing import Any

from automata.tasks.specification import TaskSource, is_pinned, task_from
from implicit.config.flat import nest
from implicit.config.references import AnyModel, model_name, task_specification
from implicit.config.run import OptimizerConfig, TrainConfig
from implicit.models.registry import MODELS, Sizes, joined_sizes, model_class, size_fields, size_names
from implicit.models.stack import CellStack

Settings = dict[str, Any]

FALLBACK_SIZES: Sizes = {"d_model": 32, "expand": 2, "d_state": 16, "head_size": 16, "d_conv": 4}
FALLBACK: Settings = {
    "batch_size": 64,
    "length": 32,
    "steps": 1500,
    "learning_rate": 1e-3,
    "bounded_steps": 500,
    "bounded_iterations": 4,
    "free_max_iterations": 24,
    "free_rtol": 0.05,
    "phantom_steps": 4,
    "contraction_weight": 0.01,
    "carried_share": 0.9,
    "carried_after": 700,
    "evaluate_every": 100,
    "evaluation_rtol": 0.01,
    "evaluation_max_iterations": 100,
}
"""By step number, with phantom gradients: of a task that has no settings of its own and is no automaton."""

BY_ACCURACY: Settings = {
    "batch_size": 64,
    "length": 40,
    "learning_rate": 2e-3,
    "start_length": 4,
    "length_growth": 4,
    "growth_accuracy": 0.93,
    "bounded_steps": 0,
    "bounded_length": 4,
    "bounded_iterations": 8,
    "free_max_iterations": 60,
    "free_rtol": 0.01,
    "free_gradient": "implicit",
    "carried_share": 0.9,
    "carried_right": True,
    "evaluation_rtol": 0.01,
    "evaluation_max_iterations": 100,
}
"""Lengths that grow as the model learns them, the exact gradient, right sequences that go on at the end."""

EVERY_ANSWER: Settings = {
    **BY_ACCURACY,
    "length": 32,
    "start_length": None,
    "steps": 1500,
    "growth_accuracy": 0.97,
    "final_steps": 300,
    "contraction_weight": 0.02,
    "contraction_scales": (0.1, 1.0),
    "contraction_power": 2.0,
    "random_starts": 1.0,
    "loss_until_error": True,
    "evaluate_every": 100,
}
"""For tasks whose tokens are all elements: the first token may have a fixed point for every answer, and which
of them is reached must not change from one update to the next. The loss ends at the first wrong answer, so
that sequences need not grow (docs/training.md). Every automaton without settings of its own takes them."""

GENERATORS: Settings = {
    **BY_ACCURACY,
    "steps": 3000,
    "final_steps": 500,
    "contraction_weight": 0.003,
    "evaluate_every": 200,
}

PAIRS_FIRST: Settings = {
    **BY_ACCURACY,
    "tokens_per_update": 1024,
    "learning_rate": 1e-2,
    "scale_learning_rate": True,
    "start_length": 2,
    "length_growth": 2,
    "bounded_length": 0,
    "steps": 5000,
    "final_steps": 1800,
    "contraction_weight": 0.006,
    "loss_until_error": True,
    "carried_share": 0.5,
    "evaluate_every": 200,
    "evaluation_lengths": (40, 128),
}
"""For the large groups, whose tokens are all elements. Large batches of two tokens come first: every product
of two elements. As lengths grow, a step has fewer sequences and a lower learning rate. Half of the sequences
begin anew: with the tenth of the other recipes, first tokens were too rare to be learned without an error."""

RECIPES: dict[str, Settings] = {
    "parity": {**EVERY_ANSWER, "steps": 1000, "final_steps": 100},
    "S3": EVERY_ANSWER,
    "A4": EVERY_ANSWER,
    "S4": {**EVERY_ANSWER, "steps": 3000, "contraction_weight": 0.005},
    "A5": PAIRS_FIRST,
    "S5": {
        **PAIRS_FIRST,
        "steps": 7000,
        "final_steps": 2500,
        "average_steps": 500,
        "contraction_weight": 0.015,
        "evaluate_every": 100,
    },
    "A5-generators": GENERATORS,
    "S5-generators": GENERATORS,
}

OWN_CELL: Settings = {
    **BY_ACCURACY,
    "steps": 2500,
    "length": 24,
    "learning_rate": 3e-3,
    "start_length": 2,
    "length_growth": 2,
    "growth_accuracy": 0.9,
    "final_steps": 200,
    "free_mode": "simultaneous",
    "free_max_iterations": 200,
    "evaluation_max_iterations": 1000,
    "contraction_weight": 0.05,
    "contraction_scales": (0.1, 1.0),
    "contraction_power": 2.0,
    "evaluate_every": 100,
}
"""For stacks of a user's cell, which no kernel runs: short sequences first, and all of their tokens together.
Windows take up to seven times as long where few tokens have fixed points yet (docs/your_own_cell.md)."""

S5_SIZES: Sizes = {"d_model": 96, "expand": 2, "d_state": 32, "head_size": 32, "d_conv": 4}

RECIPE_SIZES: dict[str, Sizes] = {
    "parity": FALLBACK_SIZES,
    "S3": FALLBACK_SIZES,
    "A4": {**FALLBACK_SIZES, "d_model": 48, "head_size": 24},
    "S4": S5_SIZES,
    "A5": S5_SIZES,
    "S5": {**S5_SIZES, "d_model": 128},
    "A5-generators": S5_SIZES,
    "S5-generators": S5_SIZES,
}


MODEL_RECIPES: dict[tuple[str, str], Settings] = {
    ("S3", "implicit-gated-deltanet"): {
        **FALLBACK,
        "learning_rate": 2e-3,
        "steps": 1600,
        "start_length": 4,
        "length_growth": 1,
        "length_growth_every": 50,
        "bounded_steps": 400,
        "bounded_iterations": 10,
        "free_max_iterations": 40,
        "free_rtol": 0.02,
        "contraction_weight": 0.02,
        "carried_share": 0.0,
    }
}
"""Settings of single models, in place of those of the task. Whoever compares such a model gives the others
the same data: the same lengths, steps and batches."""

MODEL_RECIPE_SIZES: dict[tuple[str, str], Sizes] = {
    ("S3", "implicit-gated-deltanet"): {"d_model": 64, "mlp_size": 128}
}


def recipe(task: TaskSource, model: AnyModel, **overrides: Any) -> TrainConfig:
    """Return the configuration for a task and a model.

    InputError for an unknown task, model or field, or a bad value.

    Args:
        task: its name, or one of your own: ``module:name``, a specification, or the object itself. Without a
            recipe an automaton takes that of S3, any other task `FALLBACK`.
        model: its name, or one of your own: ``module:name`` or the class itself.
        overrides: fields of `TrainConfig` (those of its groups by their flat names), whole groups, or sizes
            of the model. Fewer steps than the recipe's shorten its final phase in proportion, and the warm-up
            takes a quarter of them at most.

    Example:
        >>> config = recipe("S5-generators", "lstm", steps=1000, d_model=64, lr=0.003)
        >>> config.length, config.optimizer.learning_rate, config.steps, config.sizes
        (40, 0.003, 1000, {'d_model': 64, 'layers': 1})
        >>> recipe("parity", "lstm", stepz=100)
        Traceback (most recent call last):
        automata.errors.InputError: field 'stepz' is unknown; did you mean 'steps'? Known: ...
    """
    specification, _ = task_specification(task)
    known = specification if isinstance(specification, str) else ""
    model = model_name(model)
    sizes = {
        name: value
        for name, value in RECIPE_SIZES.get(known, FALLBACK_SIZES).items()
        if name in size_names(model)
    }
    sizes.update(MODEL_RECIPE_SIZES.get((known, model), {}))
    named = {name: overrides.pop(name) for name in {*size_fields(), *size_names(model)} & overrides.keys()}
    sizes.update(joined_sizes(overrides.pop("sizes", {}), named))
    # In their groups, so that a group among the overrides takes the place of the recipe's.
    told = "carried_share" in overrides or "curriculum" in overrides
    # stories and texts are no automata, and need not be there
    unread = told and (known in RECIPES or (is_pinned(task) and "csv" not in specification))
    built = None if unread else task_from(specification)
    automaton = known not in RECIPES and built is not None and built.machine() is not None
    own_cell = model not in MODELS and issubclass(model_class(model), CellStack)
    good = RECIPES.get(known) or (EVERY_ANSWER if automaton else FALLBACK)
    if own_cell and (automaton or known in ("parity", "S3")):
        good = OWN_CELL
    good = dict(MODEL_RECIPES.get((known, model), good))
    if built is not None and not told:
        if model_class(model).state_grows or not built.continues:
            good["carried_share"] = 0.0  # such a model cannot go on in the next batch, nor can such a task
        good["length"] = min(good["length"], built.longest or good["length"])
    steps = str(overrides.get("steps"))  # a number, or that of a flag
    is_number = steps.isdecimal() and len(steps) < 20  # others are refused when they are read
    if "final_steps" in good and is_number:
        share = min(int(steps), good["steps"]) / good["steps"]
        good["final_steps"] = max(1, int(share * good["final_steps"]))
    if is_number and "optimizer" not in overrides:  # else the group has its own
        usual = OptimizerConfig.model_fields["warmup_steps"].default
        good["warmup_steps"] = min(usual, -(-int(steps) // 4))
    settings = nest(TrainConfig, good)
    if "lr" in overrides:  # as the flag --lr
        overrides["learning_rate"] = overrides.pop("lr")
    return TrainConfig.of(task=task, model=model, sizes=sizes, **{**settings, **overrides})
