"""Settings of the search for a cover: those given, then those of a stored run, then the defaults."""

import shutil
from pathlib import Path

from analysis.certificates.proofs import lengths as all_lengths
from analysis.certificates.proofs.lengths import OF_STORED_RUNS, LengthsSettings, for_run
from implicit.runs.loading import STORED_RUNS, load_run


def test_a_stored_run_has_its_own_settings_where_none_are_given() -> None:
    plain, run = LengthsSettings(), load_run("s3-small")
    own = OF_STORED_RUNS["s3-small"]
    assert for_run(plain, run).model_dump() == {**plain.model_dump(), **own}
    chosen = LengthsSettings(rate=plain.rate, sets=7)  # given, though one of them is the default
    assert for_run(chosen, run).model_dump() == {**plain.model_dump(), **own, "rate": plain.rate, "sets": 7}
    assert (
        all_lengths.analyse(run, sets=50).fault
        == "more than 50 states lie farther than 0.003 from each other"
    )


def test_other_runs_have_the_defaults(tmp_path: Path) -> None:
    """Also one of the same name that is not the stored one."""
    copied = tmp_path / "s3-small"
    shutil.copytree(STORED_RUNS / "s3-small", copied)
    for run in (load_run("parity-small"), load_run(copied)):
        assert for_run(LengthsSettings(), run) == LengthsSettings()


def test_every_name_is_that_of_a_stored_run() -> None:
    assert set(OF_STORED_RUNS) <= {folder.name for folder in STORED_RUNS.iterdir()}
    for own in OF_STORED_RUNS.values():
        LengthsSettings(**own)
