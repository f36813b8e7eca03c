"""The README's Python example runs and prints what its comments say."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import torch

README = Path(__file__).parents[1] / "README.md"


def printed_and_said(number: int, names: dict[str, Any]) -> tuple[list[str], list[str]]:
    """What a Python block of the README prints, and what its comments say. A remark may follow after ": "."""
    code = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)[number]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(README), "exec"), names)
    comments = [line.rpartition("  # ")[2] for line in code.splitlines() if line.startswith("print")]
    return printed.getvalue().splitlines(), [comment.split(": ")[0] for comment in comments]


def test_python_example() -> None:
    printed, said = printed_and_said(0, {})
    assert printed == said


def test_a_language_model_generates_in_five_lines(tmp_path: Path) -> None:
    from implicit.language import ImplicitLlamaForCausalLM, ImplicitLlamaLMConfig

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = ImplicitLlamaForCausalLM(ImplicitLlamaLMConfig(vocab_size=9, **sizes, rtol=0.01))
    model.save_pretrained(tmp_path)
    printed, said = printed_and_said(1, {"folder": tmp_path})
    assert printed == said
