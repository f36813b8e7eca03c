"""The table of perplexities, against numbers written out."""

import json
from pathlib import Path
from typing import Any

from paper_figures.figures.wikitext2_table import results_table
from paper_figures.stored_results import RESULTS


def group(*runs: tuple[float, float, int]) -> dict[str, Any]:
    return {
        "seeds": {
            str(seed): {"perplexity": perplexity, "training_seconds": seconds, "parameters": parameters}
            for seed, (perplexity, seconds, parameters) in enumerate(runs)
        },
        "failed": [],
    }


def test_every_run_is_in_its_cell() -> None:
    found = {
        "models": {
            "llama": {
                "explicit": {"64 x 2": group((30.126, 10, 1000), (31, 21, 1000))},
                "bounded": {"64 x 2": group(), "96 x 4": group((20, 7, 2000))},
                "free": {"64 x 2": group((29, 40.4, 1500))},
            }
        }
    }
    assert results_table(found).split("\n") == [
        "| model, width x layers | parameters: explicit, implicit | explicit | implicit, (4+1) | "
        "implicit, with free phase |",
        "| --- | --- | --- | --- | --- |",
        "| Llama, 32 x 2 | -, - | - | - | - |",
        "| Llama, 64 x 2 | 1,000, 1,500 | 30.13, 31.00 (16 s) | - | 29.00 (40 s) |",
        "| Llama, 96 x 4 | -, - | - | 20.00 (7 s) | - |",
    ]


def test_the_stored_runs_are_all_there() -> None:
    content = json.loads((Path(RESULTS) / "wikitext2.json").read_text(encoding="utf-8"))["results"]
    table = results_table(content)
    runs = [
        run
        for kinds in content["models"].values()
        for sizes in kinds.values()
        for one in sizes.values()
        for run in one["seeds"].values()
    ]
    assert len(runs) == 30
    assert all(f"{run['perplexity']:.2f}" in table for run in runs)
