"""The page on pretraining: its example runs, and what its table names is there."""

import re
from pathlib import Path

import pytest

from implicit.language.pretrain import PretrainConfig
from implicit.language.pretrain.__main__ import main
from implicit.language.pretrain.config import read_config
from tests.implicit.language.pretrain.small_runs import write_texts

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "pretraining" / "wikitext2.yaml"
PAGE = (ROOT / "docs" / "pretraining.md").read_text(encoding="utf-8")


def test_the_example_trains_on_another_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_texts(tmp_path)
    changes = {
        "train.files": f"[{tmp_path}/train.txt]",
        "validation.files": f"[{tmp_path}/valid.txt]",
        "tokenizer": "280",
        "length": "32",
        "steps": "4",
        "evaluation.tokens": "100",
    }
    given = [flag for name, value in changes.items() for flag in ("--set", f"{name}={value}")]
    main([str(EXAMPLE), "--out", str(tmp_path / "run"), "--cpu", *given])
    assert "perplexity" in capsys.readouterr().out


def test_the_example_is_of_the_size_that_it_says() -> None:
    config = read_config(EXAMPLE)
    assert [phase.label for phase in config.phases] == ["4+1", "24+4"]
    from implicit.language import parameter_count

    assert f"{parameter_count(config.model.build(1024)):,} parameters" in EXAMPLE.read_text()


def test_the_table_names_every_field_but_those_of_bookkeeping() -> None:
    table = PAGE[PAGE.index("| field |") :].split("\n\n")[0]
    named = {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named == set(PretrainConfig.model_fields) - {"seed", "checkpoint_every", "log_every"}
