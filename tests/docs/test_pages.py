"""The pages of docs/: their example files and code, their tables, and what they say of stored runs."""

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from automata import ReplLanguage, task_from
from automata.repl import check_with_interpreter, sample_sessions
from automata.tasks.audit import last_reveal_audit
from implicit.language import parameter_count, published_config
from implicit.language.cost import Activations, WeightMemory, published_phases
from implicit.language.cost.__main__ import RESERVED, Device
from implicit.language.cost.__main__ import main as cost
from implicit.language.harness import LOCAL_SETS, tracking_documents
from implicit.language.pretrain import read_config
from implicit.language.pretrain.__main__ import main as pretrain
from paper_figures.published_tables import read_table
from paper_figures.registry import all_figures, summary
from tests.docs.page import EXAMPLES, ROOT, page, python_in, quoted
from tests.implicit.language.pretrain.small_runs import write_texts
from theory.belief import report
from theory.belief.report import decay_report, rescaling_report, underflow_report, worst_report
from theory.belief.underflow import observed_underflow

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    "file", [*EXAMPLES.glob("*.py"), *EXAMPLES.glob("*.json")], ids=lambda file: file.name
)
def test_every_example_is_shown_as_it_is(file: Path) -> None:
    assert any(quoted(file.name) in page(name.name) for name in (ROOT / "docs").glob("*.md"))


def test_the_code_on_language_models_runs_in_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    from transformers import TrainingArguments

    monkeypatch.chdir(tmp_path)
    blocks = python_in("language_models.md")
    assert blocks
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    options = TrainingArguments(str(tmp_path / "trained"), use_cpu=True, report_to=[], weight_decay=0.1)
    groups = names["MatrixDecayTrainer"](names["model"], options).create_optimizer().param_groups
    assert [(group["weight_decay"], {part.ndim > 1 for part in group["params"]}) for group in groups] == [
        (0.1, {True}),
        (0.0, {False}),
    ]
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "torch.Size([1, 14])"
    assert 200 < float(printed[-2]) < 330
    assert 0 <= float(printed[-1]) <= 1


@pytest.mark.filterwarnings("ignore:outputs without a fixed point:implicit.NotConvergedWarning")
def test_the_network_with_a_layer_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    network = import_module("layer_network").train(steps=80)
    bits = torch.randint(2, (64, 2), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(network(bits).argmax(-1), bits.cumsum(1) % 2)


def test_the_function_of_the_page_is_solved_and_differentiated() -> None:
    (_, theorem, code) = python_in("use_a_layer.md")
    asked: dict[str, Any] = {}
    exec(theorem, asked)
    assert f"print(report.headline)  # {asked['report'].headline}\n" in theorem
    names: dict[str, torch.nn.Linear] = {}
    exec(code, names)
    assert names["mix"].weight.grad is not None


@pytest.mark.parametrize("code", [*python_in("solvers.md"), *python_in("gradients.md")])
def test_the_code_on_solvers_runs(code: str) -> None:
    exec(code, {})


def test_the_example_on_modes_that_agree_runs(capsys: Captured) -> None:
    (example,) = python_in("when_modes_agree.md")
    exec(example, {})
    assert capsys.readouterr().out.startswith("True 0.088")


def test_the_example_of_pretraining_trains_on_another_text(tmp_path: Path, capsys: Captured) -> None:
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
    example = EXAMPLES / "pretraining" / "wikitext2.yaml"
    pretrain([str(example), "--out", str(tmp_path / "run"), "--cpu", *given])
    assert "perplexity" in capsys.readouterr().out


MEASURED = {"measured", "difference", "observed", "best gain, observed", "5% off from", "off before, mean"}


def predicted(text: str) -> list[list[list[str]]]:
    """The tables of a text without the columns of what is measured."""
    blocks = re.findall(r"(?:^\|.*(?:\n|\Z))+", text, flags=re.MULTILINE)
    found = [[row.strip("| ").split(" | ") for row in block.splitlines()] for block in blocks]
    kept = [[column for column, head in enumerate(table[0]) if head not in MEASURED] for table in found]
    return [[[row[c] for c in columns] for row in table] for table, columns in zip(found, kept, strict=True)]


def test_what_is_predicted_of_beliefs_is_what_the_command_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    # two sequences are enough for columns that do not depend on them, and none has to be followed to its end
    monkeypatch.setattr(report, "exit_lengths", lambda *given: np.ones(2))
    short = lambda a, source, dtype, count, _, rng: observed_underflow(a, source, dtype, count, 8, rng)  # noqa: E731
    monkeypatch.setattr(report, "observed_underflow", short)
    for name in ("cases", "decay_rate", "belief_chain"):  # several tables have the same ones
        monkeypatch.setattr(report, name, cache(getattr(report, name)))
    printed = [
        decay_report(sequences=2, length=8),
        underflow_report(sequences=2),
        rescaling_report(sequences=2),
        worst_report(),
    ]
    shown = predicted(page("belief.md"))
    assert shown == [table for text in printed for table in predicted(text)]
    assert len(shown) == 5


LENGTHS = {"parity": 3, "ring": 3, "s5": 2, "balls": 3, "programs": 3, "repl": 3}


@pytest.mark.parametrize("name", LENGTHS)
def test_examples_of_tasks_are_documents(name: str) -> None:
    (document,) = tracking_documents(name, LENGTHS[name], documents=1)
    _, _, section = page("evaluation.md").partition("\n## State tracking in plain text\n")
    _, _, after = section.partition(f"`tracking_{name}`")
    assert after.partition("```text\n")[2].partition("\n```")[0] == document.text


def test_published_figures_are_those_of_the_table_and_named_as_such() -> None:
    _, title, rest = page("evaluation.md").partition("\n### Published, not measured here\n")
    assert title
    table = read_table("downstream")
    text = rest.partition("\n## ")[0]
    assert table.source["arxiv"] in text
    assert "Schöne et al. 2025" in text
    rows = [line for line in text.splitlines() if line.startswith("| ") and "published model" not in line]
    assert rows == [
        f"| {row['printed']}, {row['size']}, {row['data']} | "
        + " | ".join(
            "–" if row[column] is None else f"{row[column]:g}"
            for column in ("lambada_perplexity", *LOCAL_SETS, "average")
        )
        + " |"
        for row in table.rows
    ]


def test_experiments_are_listed_as_the_command_prints_them() -> None:
    assert f"\n\n{summary(list(all_figures().values()))}\n\n" in page("experiments.md")


REPL = page("repl_traces.md")
SESSIONS = re.findall(r"```text\n(.*?)\n```", REPL, re.DOTALL)
SEED = 3441447623


def test_the_sessions_are_true_and_drawn_by_the_task_with_the_named_fields() -> None:
    assert f"seeded with {SEED}" in REPL
    wanted = re.findall(r"\(`(\"[^`]*)`\)", REPL)
    assert len(wanted) == len(SESSIONS) == 4
    for fields, session in zip(wanted, SESSIONS, strict=True):
        assert check_with_interpreter(session, SEED) is None
        task = task_from(f'{{"repl": {{{" ".join(fields.split())}}}}}')
        assert isinstance(task, ReplLanguage)
        assert task.tokenizer.decode(task.tokenizer.encode(session)) == session
        task.beliefs([task.tokenizer.encode(session)])
    form = ReplLanguage(hidden="if", reveal_every=1).form
    drawn = sample_sessions(form, 1, np.random.default_rng(3), commands=2).trace(0)
    assert (drawn.text, drawn.seed) == (SESSIONS[2], SEED)


@pytest.mark.parametrize(
    ("name", "last_reveal", "ceiling"),
    re.findall(r"^\| `(repl-[\w-]+)` \| ([\d.]+) \| ([\d.]+) \|", REPL, re.M),
)
def test_the_figures_are_those_of_the_audit(name: str, last_reveal: str, ceiling: str) -> None:
    task = task_from(name)
    assert isinstance(task, ReplLanguage)
    found = last_reveal_audit(task, 512, 64, 64, np.random.default_rng(0))
    assert found is not None
    assert f"{found.accuracy:.4f}" == last_reveal
    best = task.ceiling(512, last=64, sequences=64)
    assert best is not None
    # of hidden swaps from a sample of 64 sessions: some 280 answers, whose best ones are right with 1/3 to 1
    assert best.accuracy == pytest.approx(float(ceiling), abs=0.05 if task.form.hidden else 0)


FOLDER = EXAMPLES / "pretraining"
RUNS = sorted(FOLDER.glob("pile_*.yaml"))
VOCABULARY = 50_277
"""Tokens of EleutherAI/gpt-neox-20b."""


def test_the_tables_of_scale_are_what_the_command_prints(capsys: Captured) -> None:
    table = r"<!-- python -m implicit.language.cost (.*?) -->\n(.*?)\n<!-- end -->"
    ((arguments, shown),) = re.findall(table, page("scale.md"), re.DOTALL)
    cost(arguments.split())
    assert capsys.readouterr().out.strip() == shown


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_a_run_is_of_the_published_size_and_fits_into_memory(path: Path) -> None:
    config, text = read_config(path), path.read_text(encoding="utf-8")
    family, size = config.model.family, str(config.model.size)
    assert path.stem == f"pile_implicit_{family}_{size}"
    assert config.phases == published_phases(family)
    # Steps are whole: half of one is a millionth of them.
    assert config.steps * config.tokens_per_step == pytest.approx(207e9, rel=1e-5)
    assert config.optimizer.warmup_steps * config.tokens_per_step == pytest.approx(
        375e6, rel=2e-3
    )  # likewise
    model = config.model.build(VOCABULARY)
    assert parameter_count(model) == parameter_count(published_config(family, size))

    on_64 = int(re.findall(r"On 64 GPUs: --set accumulation=(\d+)", text)[0])
    weights = WeightMemory.of(model, 8, sharded=False).total
    sequence = max(
        Activations.of(
            model,
            config.length,
            phantom_steps=phase.phantom_steps,
            gradient_checkpointing=config.gradient_checkpointing,
        ).total
        for phase in config.phases
    )
    for devices, accumulation in ((8, config.accumulation), (64, on_64)):
        at_a_time, rest = divmod(config.sequences, devices * accumulation)
        assert rest == 0  # the run refuses numbers that do not divide
        assert weights + at_a_time * sequence <= (1 - RESERVED) * Device().memory


def environment_of(file: str) -> dict[str, str]:
    """Variables that `accelerate launch` hands on to the processes."""
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils.launch import prepare_multi_gpu_env

    given = launch_command_parser().parse_args(["--config_file", str(FOLDER / file), "-m", "module"])
    given, _, _ = _validate_launch_command(given)
    assert given.num_processes == 8
    return prepare_multi_gpu_env(given)


def test_sharded_is_one_unit_of_fsdp2_and_replicated_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from accelerate.utils import FullyShardedDataParallelPlugin

    assert "ACCELERATE_USE_FSDP" not in environment_of("accelerate_replicated.yaml")
    environment = environment_of("accelerate_sharded.yaml")
    assert environment["ACCELERATE_USE_FSDP"] == "true"
    for name, value in environment.items():
        if name.startswith("FSDP_"):
            monkeypatch.setenv(name, value)
    plugin = FullyShardedDataParallelPlugin()
    assert plugin.fsdp_version == 2
    assert plugin.auto_wrap_policy is None
    assert plugin.reshard_after_forward is False
    assert plugin.cpu_ram_efficient_loading is False


QUOTED = set(
    re.findall(
        r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", page("architecture.md"), flags=re.DOTALL | re.MULTILINE)
    )
)
PACKAGES = ("automata", "theory", "implicit", "analysis", "paper_figures", "benchmarks")
PATHS = sorted(name for name in QUOTED if "/" in name and re.fullmatch(r"[\w/.]+", name))
NAMES = sorted(name for name in QUOTED if re.fullmatch(rf"({'|'.join(PACKAGES)})(\.\w+)+", name))
IN_A_RUN_FOLDER = {"checkpoint/"}


def resolved(name: str) -> object:
    """The module or object of a dotted name."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


def test_every_path_is_there_and_every_dotted_name_resolves() -> None:
    assert [path for path in PATHS if path not in IN_A_RUN_FOLDER and not (ROOT / path).exists()] == []
    assert len(PATHS) > 40
    assert None not in [resolved(name) for name in NAMES]


@pytest.mark.parametrize("package", PACKAGES[:5])
def test_every_sub_package_is_explained(package: str) -> None:
    data = {f"{package}/{name}" for name in ("stored_runs", "results")}
    folders = {str(path.parent.relative_to(ROOT)) for path in (ROOT / package).glob("*/__init__.py")} - data
    questions = {f"analysis/{path.name}" for path in (ROOT / "analysis").iterdir() if path.is_dir()}
    explained = QUOTED | (questions - {"analysis/framework", "analysis/report", "analysis/certificates"})
    assert folders <= explained
