"""Self-iterations of language models at test: collected, compared and judged."""

import json
from pathlib import Path
from typing import Any

import pytest

from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point
from paper_figures.figures import wikitext2, wikitext2_iterations
from paper_figures.figures.figure import Results
from paper_figures.figures.wikitext2_iterations import best, judge
from paper_figures.stored_results import RESULTS, StoredResults
from tests.paper_figures.figures.iteration_outcomes import ALLOWED, POINTS, all_but_the_first, perplexities
from tests.paper_figures.figures.language_outcomes import FAMILIES, KINDS, failed, iterated, parts


@pytest.fixture(scope="module")
def found() -> Results:
    return all_but_the_first()


def test_runs_are_those_of_the_other_figure_that_have_fixed_points() -> None:
    assert [parts(point) for point in POINTS] == [
        (family, kind, "64 x 2", seed)
        for family in FAMILIES
        for kind in ("bounded", "free")
        for seed in (0, 1)
    ]
    trained = {point.identifier for point in wikitext2.EXPERIMENT.points}
    assert {point.identifier for point in POINTS} <= trained


def test_every_run_is_collected_once(found: Results) -> None:
    held = {
        (family, kind, "64 x 2", int(seed)): run
        for family, kinds in found["models"].items()
        for kind, group in kinds.items()
        for seed, run in group["seeds"].items()
    }
    assert [*held] == [parts(point) for point in POINTS[1:]]
    for number, run in enumerate(held.values(), start=1):
        assert run["perplexity"] == {
            str(count): value for count, value in zip(ALLOWED, perplexities(number), strict=True)
        }
        assert run["mean"] == 10.5 + number
    lost = [group["failed"] for kinds in found["models"].values() for group in kinds.values()]
    assert lost == [[0], [], [], []]
    assert found["settings"]["allowed"] == ALLOWED


def group_of(*runs: dict[int, float]) -> dict[str, Any]:
    """Runs by hand, as they are read: counts are texts."""
    return {
        "seeds": {
            str(seed): {"perplexity": {str(count): value for count, value in run.items()}}
            for seed, run in enumerate(runs)
        },
        "failed": [],
    }


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([{1: 40.0, 4: 30.0, 8: 33.0}], [(4, 1.1)]),
        ([{1: 40.0, 4: 30.0, 16: 30.0, 64: 30.0}], [(4, 1.0)]),  # the fewest that are best
        ([{1: 40.0, 9: 32.0, 10: 31.0}], [(10, 1.0)]),  # numbers, not texts: 10 is the most
        ([{64: 30.0, 8: 20.0, 1: 40.0}], [(8, 1.5)]),  # in any order
        ([{1: 10.0, 2: 20.0}, {1: 20.0, 2: 10.0}], [(1, 2.0), (2, 1.0)]),
        ([{1: 3.0, 2: 4.0}], [(1, 1.333333)]),
        ([], []),
    ],
)
def test_a_run_is_best_at_its_least_perplexity(
    runs: list[dict[int, float]], expected: list[tuple[int, float]]
) -> None:
    assert best(group_of(*runs)) == expected


WORSE, SAME, LIMIT, BELOW = ({4: 200.0, 64: most} for most in (230.0, 200.0, 201.0, 200.998))
"""By 15%, not at all, by 0.5% to the last bit, and by a little less."""


@pytest.mark.parametrize(
    ("bounded", "free", "word", "counts"),
    [
        ([SAME, SAME], [SAME, SAME], "reproduced", "0 of 2, Llama with free phase 0 of 2"),
        ([BELOW, BELOW], [SAME, BELOW], "reproduced", "0 of 2, Llama with free phase 0 of 2"),
        ([SAME, LIMIT], [SAME, SAME], "partly", "1 of 2, Llama with free phase 0 of 2"),
        ([SAME, SAME], [SAME, WORSE], "partly", "0 of 2, Llama with free phase 1 of 2"),
        ([WORSE, WORSE], [SAME, WORSE], "partly", "2 of 2, Llama with free phase 1 of 2"),
        ([WORSE, LIMIT], [WORSE, WORSE], "not reproduced", "2 of 2, Llama with free phase 2 of 2"),
        ([None, SAME], [None, None], "reproduced", "0 of 1, Llama with free phase 0 of 0"),
        ([None, WORSE], [None, None], "not reproduced", "1 of 1, Llama with free phase 0 of 0"),
        ([None, WORSE], [SAME, None], "partly", "1 of 1, Llama with free phase 0 of 1"),
        ([None, None], [None, None], "not reproduced", "0 of 0, Llama with free phase 0 of 0"),
    ],
)
def test_the_verdict_follows_its_rule(bounded: Any, free: Any, word: str, counts: str) -> None:
    """None is a run that failed."""

    def run(point: Point, values: Any) -> Outcome:
        return failed(point) if values is None else iterated(point, {1: 300.0, **values})

    llama = [point for point in POINTS if parts(point)[0] == "llama"]
    outcomes = [run(*one) for one in zip(llama, [*bounded, *free], strict=True)]
    verdict = judge(wikitext2_iterations.collect(outcomes))
    assert verdict.word == word
    assert verdict.because == (
        "runs that the most self-iterations make worse than their best by at least 0.5%: "
        f"Llama (4+1) {counts}"
    )


def test_the_verdict_names_all_models_and_where_there_is_none_it_says_so(found: Results) -> None:
    assert judge(found).word == "partly"
    assert judge(found).because.endswith(
        "Mamba-2 (4+1) 1 of 1, Mamba-2 with free phase 2 of 2, "
        "Llama (4+1) 2 of 2, Llama with free phase 1 of 2"
    )
    nothing = judge(wikitext2_iterations.collect([]))
    assert (nothing.word, nothing.because.split(": ")[1]) == ("not reproduced", "none")


def test_the_stored_results_hold_every_run_and_the_caption_counts_them() -> None:
    content = json.loads((Path(RESULTS) / "wikitext2_iterations.json").read_text(encoding="utf-8"))
    models = content["results"]["models"]
    held = [
        (family, kind, "64 x 2", int(seed))
        for family, kinds in models.items()
        for kind, group in kinds.items()
        for seed in [*group["seeds"], *group["failed"]]
    ]
    assert sorted(held) == sorted(parts(point) for point in POINTS)
    runs = [run for kinds in models.values() for group in kinds.values() for run in group["seeds"].values()]
    assert all([*run["perplexity"]] == [str(count) for count in ALLOWED] for run in runs)
    assert list(KINDS)[1:] == [*models["mamba2"]] == [*models["llama"]]
    failures = [run for run in content["runs"] if run["status"] != "done"]
    assert (
        f"Training runs: {len(POINTS)}, {len(failures) or 'none'} failed: "
        in wikitext2_iterations.FIGURE.full_caption(StoredResults.read("wikitext2_iterations"))
    )
