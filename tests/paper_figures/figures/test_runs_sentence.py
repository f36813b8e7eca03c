"""The sentence on the runs of a figure: what it lists, and when it leaves the list to the stored results."""

from typing import Any

from paper_figures.figures.runs_sentence import runs_sentence


def runs(kinds: int, seeds: tuple[int, ...] = (0, 1), failed: int | None = None) -> list[dict[str, Any]]:
    """Kinds whose names are a hundred characters long, numbered; one run of them may have failed."""
    found = [
        {
            "settings": {"task": "parity", "model": f"{kind:02d}" + 98 * "m", "seed": seed},
            "status": "done",
        }
        for kind in range(kinds)
        for seed in seeds
    ]
    if failed is not None:
        found[failed]["status"] = "failed"
    return found


def test_a_short_list_names_every_kind() -> None:
    text = runs_sentence(runs(2))
    assert text == f"Training runs: 4, none failed: 00{98 * 'm'} 2 (seeds 0, 1); 01{98 * 'm'} 2 (seeds 0, 1)."


def test_a_long_list_of_the_same_seeds_is_left_to_the_results() -> None:
    text = runs_sentence(runs(9))
    assert (
        text
        == "Training runs: 18, none failed: 9 kinds, listed in the stored results, of each 2 (seeds 0, 1)."
    )


def test_a_list_with_a_failure_or_with_other_seeds_stays_however_long() -> None:
    assert "08" + 98 * "m" in runs_sentence(runs(9, failed=3))
    assert "1 failed" in runs_sentence(runs(9, failed=3))
    text = runs_sentence([*runs(9), *runs(1, seeds=(2,))])
    assert "00" + 98 * "m" + " 3 (seeds 0, 1, 2)" in text
    assert "08" + 98 * "m" + " 2 (seeds 0, 1)" in text
