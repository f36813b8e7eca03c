"""The page on pretraining: its example runs, and what its table names is there."""

from pathlib import Path

import pytest

from implicit.language.pretrain.__main__ import main
from tests.implicit.language.pretrain.small_runs import write_texts

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "pretraining" / "wikitext2.yaml"


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
