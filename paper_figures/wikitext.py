"""Language models on WikiText-2: explicit and implicit Mamba-2 and Llama of three sizes, on equal tokens."""

import hashlib
import json
import shlex
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.framework.output import RunIdentity
from analysis.framework.palette import MODEL_LOOKS, Look
from automata.data_files import DATA_VARIABLE
from automata.errors import InputError
from implicit.checked_config import validated
from paper_figures.figure import Grid, Point

if TYPE_CHECKING:
    from implicit.language.pretrain import FinishedRun, PretrainConfig


EXAMPLE = "docs/examples/pretraining/wikitext2.yaml"
"""The configuration that commands name, from the root of the repository."""
TEXTS = {
    part: f"${DATA_VARIABLE}/wikitext-2/{name}.txt"
    for part, name in {"train": "train.article-shuffled", "validation": "valid", "test": "test"}.items()
}
FAMILIES = {"mamba2": "Mamba-2", "llama": "Llama"}
SIZES: dict[str, dict[str, Any]] = {
    "32 x 2": {"hidden_size": 32, "num_hidden_layers": 2},
    "64 x 2": {"hidden_size": 64, "num_hidden_layers": 2},
    "96 x 4": {"hidden_size": 96, "num_hidden_layers": 4},
}
"""Width and layers."""
OF_FAMILY: dict[str, dict[str, dict[str, Any]]] = {
    "mamba2": {
        "32 x 2": {"head_dim": 16, "state_size": 16},
        "64 x 2": {"head_dim": 32, "state_size": 16},
        "96 x 4": {"head_dim": 32, "state_size": 16},
    },
    "llama": {
        "32 x 2": {"num_attention_heads": 2, "intermediate_size": 64},
        "64 x 2": {"num_attention_heads": 4, "intermediate_size": 128},
        "96 x 4": {"num_attention_heads": 4, "intermediate_size": 192},
    },
}
RATES = {"mamba2": 0.02, "llama": 0.01}
"""The best of 0.003, 0.01, 0.02 on the validation text after 400 updates at 64 x 2, explicit and (4+1)."""
LENGTH, SEQUENCES, STEPS, VOCABULARY = 128, 16, 1600, 1024
FREE_ITERATIONS = {"mamba2": 24, "llama": 32}
BOUNDED: dict[str, Any] = {"share": 1.0, "iterations": 4, "phantom_steps": 1, "rtol": 0.0}
EXPLICIT = {"Llama": Look("#000000", "s"), "Mamba-2": MODEL_LOOKS["mamba2"]}
IMPLICIT = {"Llama": Look("#6699CC", "o"), "Mamba-2": MODEL_LOOKS["implicit-mamba2"]}
"""Looks by family; no model of this toolkit's own is a Llama."""
LABELS = {"explicit": "explicit", "bounded": "(4+1)", "free": "free phase"}
KINDS = ("explicit", "bounded", "free")
"""Without a fixed point; (4+1) throughout; (4+1) on 80% of the tokens, then (24+4) or (32+4)."""


def phases(family: str, kind: str) -> list[dict[str, Any]]:
    """Return the curriculum of a kind; an explicit model reads nothing of it.

    Example:
        >>> [phase["iterations"] for phase in phases("llama", "free")]
        [4, 32]
    """
    if kind != "free":
        return [BOUNDED]
    free = {"iterations": FREE_ITERATIONS[family], "phantom_steps": 4, "rtol": 0.05}
    return [{**BOUNDED, "share": 0.8}, {"share": 0.2, **free}]


class WikiTextPoint(Point):
    """A pretraining run on WikiText-2; `fields` says what its settings mean in a `PretrainConfig`.

    ``model`` names family and kind, ``size`` width and layers; others are fields.

    Example:
        >>> point = WikiTextPoint({"task": "wikitext-2", "model": "free-llama", "size": "64 x 2", "seed": 1})
        >>> point.fields["model"]["implicit"], point.fields["optimizer"]["learning_rate"], point.name
        (True, 0.01, 'wikitext-2-free-llama-size=64 x 2-seed-1')
    """

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the configuration, nested as in YAML."""
        chosen = self.all_settings
        kind, family = chosen["model"].split("-")
        return {
            "model": {
                "family": family,
                "implicit": kind != "explicit",
                "fields": {**SIZES[chosen["size"]], **OF_FAMILY[family][chosen["size"]]},
            },
            "tokenizer": VOCABULARY,
            "train": {"files": [TEXTS["train"]]},
            "validation": {"files": [TEXTS["validation"]]},
            "length": LENGTH,
            "sequences": SEQUENCES,
            "steps": STEPS,
            "seed": chosen["seed"],
            "phases": phases(family, kind),
            "optimizer": {
                "learning_rate": RATES[family],
                "warmup_steps": 100,
                "gradient_clip": 1.0,
                "weight_decay": 0.1,
            },
            "evaluation": {"every": 800, "tokens": 50_000},
            "checkpoint_every": 200,
            "log_every": 20,
            **{name: value for name, value in chosen.items() if name not in ("task", "model", "size")},
        }

    @cached_property
    def config(self) -> "PretrainConfig":
        """The whole configuration of the run."""
        try:
            from implicit.language.pretrain import PretrainConfig
        except ImportError as error:
            raise InputError(
                f"{self.settings['task']} needs a package that is missing ({error}); install "
                "implicit-ssm[pretraining]"
            ) from error
        return validated(PretrainConfig, self.fields)

    @cached_property
    def config_json(self) -> dict[str, Any]:
        """Everything that determines the run, as JSON takes it."""
        found: dict[str, Any] = json.loads(self.config.model_dump_json())
        return found

    @property
    def command(self) -> str:
        """The command that trains this run, from the root of the repository."""
        changes = " ".join(
            f"--set {shlex.quote(f'{name}={json.dumps(value)}')}" for name, value in self.fields.items()
        )
        return f"python -m implicit.language.pretrain {EXAMPLE} {changes} --out RUN"

    def train(self, folder: Path, device: str = "cpu") -> "FinishedRun":
        """Train the run in a folder on a device, or go on with it; return it."""
        import torch

        from implicit.language.pretrain import finished_run, make_accelerator, pretrain

        accelerator = make_accelerator(self.config, cpu=torch.device(device).type == "cpu")
        pretrain(self.config, folder, accelerator)
        return finished_run(folder)

    def identity(self, run: "FinishedRun") -> RunIdentity:
        """Return which run `train` has returned."""
        weights = (run.path / "model" / "model.safetensors").read_bytes()
        return RunIdentity(
            name=run.path.resolve().name,
            task=str(self.all_settings["task"]),
            model=str(self.all_settings["model"]),
            parameters=int(run.result["parameters"]),
            training_length=run.config.length,
            seed=run.config.seed,
            weights_sha256=hashlib.sha256(weights).hexdigest(),
        )

    def seconds(self, run: "FinishedRun") -> float:
        """Return how long its training took, over all interruptions."""
        return float(run.result["seconds"])


def runs(size: str, seeds: range, kinds: tuple[str, ...] = KINDS) -> Grid:
    """Return the runs of a size, both families.

    Example:
        >>> len(runs("32 x 2", range(2)).points)
        12
    """
    return Grid(
        {
            "task": ["wikitext-2"],
            "model": [f"{kind}-{family}" for family in FAMILIES for kind in kinds],
            "size": [size],
            "seed": seeds,
        },
        kind=WikiTextPoint,
    )


GRIDS = (runs("32 x 2", range(2)), runs("64 x 2", range(2)), runs("96 x 4", range(1)))
