"""The command: all tasks on small models, what it writes, and bad input."""

import json
import logging
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from automata.data_files import DATA_VARIABLE
from automata.errors import InputError
from implicit.language import ExplicitMamba2ForCausalLM
from implicit.language.harness import (
    LOCAL_SETS,
    TRACKING_TASKS,
    TrackingDocument,
    TrackingTask,
    tracking_documents,
)
from implicit.language.harness.__main__ import main
from implicit.language.stored_models import load_model
from tests.implicit.language.harness.small_harness_models import (
    DATA,
    needs_data,
    other_model,
    small_byte_model,
    write_model,
)

Folders = Callable[[str], Path]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    written: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in written:
            model = other_model() if name == "gpt2" else small_byte_model(name)
            written[name] = write_model(model, tmp_path_factory.mktemp(name))
        return written[name]

    return folder


def evaluated(folder: Path, out: Path, *flags: str) -> dict[str, Any]:
    assert main([str(folder), "--out", str(out), *flags]) == 0
    found = json.loads(out.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


@needs_data
def test_all_local_sets_are_evaluated(
    folders: Folders, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--tasks", "local_sets", "--data", str(DATA), "--limit", "3", "--batch-size", "4"]
    found = evaluated(folders("gpt2"), tmp_path / "found.json", *flags)
    assert set(found["results"]) == {f"local_{task}" for task in LOCAL_SETS}
    for task, figures in found["results"].items():
        assert 0 <= figures["acc,none"] <= 1
        assert found["n-samples"][task]["effective"] == 3
    assert found["results"]["local_lambada"]["perplexity,none"] > 10
    printed = capsys.readouterr().out
    assert all(f"|local_{task}" in printed for task in LOCAL_SETS)
    assert "fixed points: " not in printed
    assert str(DATA) not in json.dumps(found)


def test_any_model_is_tested_for_state_tracking(folders: Folders, tmp_path: Path) -> None:
    flags = ["--tasks", "state_tracking", "--documents", "2", "--batch-size", "8", "--seed", "5"]
    found = evaluated(folders("ExplicitLlamaForCausalLM"), tmp_path / "found.json", *flags)
    groups = {f"tracking_{task}_by_length" for task in TRACKING_TASKS}
    assert groups <= set(found["groups"])
    for group in groups:
        lengths = [f"{group}::length_{length:02d}" for length in (4, 8, 16, 32)]
        assert found["group_subtasks"][group] == lengths
        accuracies = [found["results"][task]["acc,none"] for task in lengths]
        assert found["groups"][group]["acc,none"] == pytest.approx(sum(accuracies) / 4)
    assert found["settings"]["seed"] == 5
    assert found["settings"]["documents"] == 2
    assert found["fixed_points"] is None


def test_an_implicit_model_is_tested_and_its_fixed_points_are_told(
    folders: Folders, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--tasks", "tracking_parity,tracking_repl", "--documents", "2", "--length", "2"]
    folder = folders("ImplicitMamba2ForCausalLM")
    found = evaluated(folder, tmp_path / "found.json", *flags)
    assert set(found["results"]) == {"tracking_parity", "tracking_repl"}
    assert found["n-samples"]["tracking_repl"]["effective"] == 2
    account = found["fixed_points"]
    assert account["tokens"] > 300
    assert account["share_converged"] == 1
    assert "fixed points: 100.00% of" in capsys.readouterr().out
    assert found["model"] == folder.name
    assert found["settings"]["length"] == 2
    assert found["settings"]["max_length"] == 2048
    assert {"lm_eval", "transformers", "datasets", "torch", "implicit-ssm"} <= set(found["environment"])
    again = evaluated(folder, tmp_path / "again.json", *flags, "--batch-size", "3")
    assert again["results"] == found["results"]


def test_texts_that_are_cut_are_told(
    folders: Folders, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folders("gpt2")
    flags = ["--tasks", "tracking_parity", "--documents", "2", "--length", "1"]
    longest = max(len(document.text) for document in tracking_documents("parity", 1, documents=2))
    whole = longest + len(" lit") - 1
    assert evaluated(folder, tmp_path / "a", *flags, "--max-length", str(whole))["shortened"] == 0
    assert " cut" not in capsys.readouterr().out
    assert evaluated(folder, tmp_path / "b", *flags, "--max-length", "20")["shortened"] == 4
    told = capsys.readouterr().out
    assert "4 texts had more than 20 tokens and lost their beginning" in told
    assert "|tracking_parity (2 of 2 cut)|" in told


def test_documents_that_are_read_alike_count_once_in_the_standard_error(
    folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixty texts that end in two ways are two inputs when they are cut: 0.065 was printed."""

    def draw(length: int, count: int, rng: np.random.Generator) -> Iterator[TrackingDocument]:
        for number in range(count):
            text = f"{number:03d} is {'odd ' if number % 2 else 'even'} Answer:"
            yield TrackingDocument(text, ("lit", "out"), number % 2, 0, "", ("",), 0)

    monkeypatch.setitem(TRACKING_TASKS, "parity", TrackingTask("read from its end", 2, draw))
    flags = ["--tasks", "tracking_parity", "--documents", "60", "--max-length", "15"]
    figures = evaluated(folders("gpt2"), tmp_path / "found.json", *flags)["results"]["tracking_parity"]
    assert figures["acc,none"] == 0.5
    assert figures["acc_stderr,none"] == pytest.approx(0.5)


def test_a_text_may_not_be_shorter_than_an_answer(
    folders: Folders, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--tasks", "tracking_parity", "--documents", "1", "--max-length", "2"]
    assert main([str(folders("gpt2")), "--out", str(tmp_path / "found.json"), *flags]) == 2
    assert "max_length is 2, and an answer has" in capsys.readouterr().err
    assert not (tmp_path / "found.json").exists()


@pytest.mark.filterwarnings("default:.*leaves out weights:UserWarning")
def test_names_of_weights_are_shown_as_they_are(
    folders: Folders, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model"
    shutil.copytree(folders("gpt2"), model)
    weights = load_file(model / "model.safetensors")
    save_file({**weights, "\x1b[31mEVIL": torch.ones(1)}, model / "model.safetensors", {"format": "pt"})
    monkeypatch.setattr(logging.getLogger("transformers"), "handlers", [logging.StreamHandler(sys.stderr)])
    assert main([str(model), "--tasks", "tracking_parity", "--documents", "1"]) == 0
    out, err = capsys.readouterr()
    assert "leaves out weights of its files, \\x1b[31mEVIL for one" in err
    assert "\x1b" not in out + err


BAD: list[tuple[list[str], str]] = [
    (["{model}"], "tasks is missing"),
    (["--tasks", "tracking_s5"], "model is missing"),
    (["{model}", "--tasks", "tracking_s6"], "task 'tracking_s6' is unknown; did you mean 'tracking_s"),
    (["{model}", "--tasks", "tracking_s5,tracking_s5"], "share tasks"),
    (["{model}", "--tasks", "tracking_s5_by_length,state_tracking"], "share tasks"),
    (["{model}", "--tasks", "tracking_s5", "--limit", "0"], "limit is 0; give at least 1"),
    (["{model}", "--tasks", "tracking_s5", "--limit", "many"], "limit is 'many'; give a whole number"),
    (["{model}", "--tasks", "tracking_s5_by_length", "--length", "9"], "length is 9, and the length of"),
    (["{model}", "--tasks", "tracking_s5", "--seed", "-1"], "seed is -1; give a number from 0"),
    (["{model}", "--tasks", "tracking_s5", "--device", "gpu"], "device is 'gpu'"),
    (["{model}", "--tasks", "local_piqa"], f"data is missing, and {DATA_VARIABLE} is not set"),
    (["{model}", "--tasks", "local_piqa", "--data", "nowhere"], "data is nowhere, which is no folder"),
    (["{model}", "--tasks", "local_piqa", "--data", "{empty}"], "data lacks piqa/valid.jsonl for piqa"),
    (["{model}", "--tasks", "local_piqa", "--data", "{broken}"], "valid-labels.lst, which cannot be read"),
    (["nowhere", "--tasks", "tracking_s5"], "model is nowhere, which is no folder"),
    (["{empty}", "--tasks", "tracking_s5"], "which has no config.json"),
    (["{untokenized}", "--tasks", "tracking_s5"], "which has no tokenizer"),
    (["{small}", "--tasks", "tracking_s5"], "has a token 256, and the model only 23"),
    (["{untyped}", "--tasks", "tracking_s5"], "cannot be read (module 'torch' has no attribute 'float17')"),
    (["{wide}", "--tasks", "tracking_s5"], "hidden_size is 9223372036854775808; give a number of 64 bits"),
    (["{partial}", "--tasks", "tracking_s5"], "lacks weights, model.mixers.0.in_proj.weight for one"),
    (["{model}", "--tasks", "tracking_s5", "--out", "nowhere/found.json"], "nowhere is no folder"),
    (["{model}", "--tasks", "tracking_s5", "--out", "."], "which is a folder; give a file"),
    (["{model}", "--task", "tracking_s5"], "the nearest is --tasks"),
]


@pytest.fixture(scope="module")
def named(folders: Folders, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return bad_folders(folders("ExplicitLlamaForCausalLM"), tmp_path_factory.mktemp("bad"))


@pytest.mark.parametrize(("arguments", "sentence"), BAD)
def test_bad_input_is_one_sentence_and_nothing_is_written(
    arguments: list[str],
    sentence: str,
    named: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()  # of the models that were written
    given = [argument.format(**named) for argument in arguments]
    given += [] if "--out" in given else ["--out", "found.json"]
    assert main(given) == 2
    said = capsys.readouterr().err.strip()
    assert sentence in said
    assert said.startswith("error: ")
    assert said.count("\n") == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "file"), [("gpt2", "config.json"), ("ExplicitLlamaForCausalLM", "tokenizer_config.json")]
)
def test_code_in_the_folder_of_a_model_is_not_run(
    name: str,
    file: str,
    folders: Folders,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`transformers` asks on standard input, where ``yes |`` answers."""
    monkeypatch.setattr("builtins.input", lambda _: "y")
    folder = tmp_path / "model"
    shutil.copytree(folders(name), folder)
    (folder / "evil.py").write_text("raise SystemExit(0)\n")
    auto = {"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M", "AutoTokenizer": ["evil.T", None]}
    named = {"model_type": "evil", "tokenizer_class": "Evil", "auto_map": auto}
    stated = json.loads((folder / file).read_text("utf-8"))
    (folder / file).write_text(json.dumps(stated | named), "utf-8")
    assert main([str(folder), "--tasks", "tracking_parity"]) == 2
    assert "contains custom code" in capsys.readouterr().err


@pytest.mark.parametrize(
    "asked",
    [
        {"n_embd": 20000},
        {"n_layer": 10**5},
        {"vocab_size": 10**9},
        {"n_positions": 10**9},
        {"num_labels": 10**9},
        {"model_type": "qwen2", "num_hidden_layers": 10**9},
        {"model_type": "mixtral", "num_local_experts": 10**8},
        {"model_type": "gpt_neo", "attention_types": [[["global"] * 100, 7 * 10**6]]},
        {"model_type": "xglm", "max_position_embeddings": 10**6},
    ],
    ids=str,
)
def test_a_configuration_that_asks_for_more_than_files_hold_is_refused(
    asked: dict[str, Any], folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for reader in (AutoTokenizer, AutoModelForCausalLM):  # by which memory would be taken
        monkeypatch.setattr(reader, "from_pretrained", None)
    folder = tmp_path / "model"
    shutil.copytree(folders("gpt2"), folder)
    stated = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(stated | asked), "utf-8")
    with pytest.raises(InputError, match="asks for many more weights than its files hold"):
        load_model(folder)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")  # by peft
def test_an_adapter_beside_a_model_is_loaded_unless_it_asks_for_more(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    lora = peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True)
    peft.get_peft_model(other_model(), lora).save_pretrained(tmp_path)
    write_model(other_model(), tmp_path)
    assert any("lora_A" in name for name in load_model(tmp_path)[0].state_dict())
    file = tmp_path / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | {"rank_pattern": {"c_attn": 10**7}}))
    with pytest.raises(InputError, match="asks for many more weights than its files hold"):
        load_model(tmp_path)


ENDLESS = r"(\w|[\w.]|.)*(\w|[\w.]|.)*X"


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("adapter_config.json", {"target_modules": ENDLESS}),
        ("adapter_config.json", {"target_modules": "(|)" * 34 + "x"}),
        ("adapter_config.json", {"target_modules": ["c_attn"], "rank_pattern": {".*" * 9 + "X": 2}}),
        ("adapter_config.json", {"rank_pattern": {".*" * 4 + f"X{number}": 2 for number in range(40)}}),
        (
            "config.json",
            {"quantization_config": {"quant_method": "bitnet", "modules_to_not_convert": [ENDLESS]}},
        ),
        ("config.json", {"attn_implementation": "evil/kernel"}),
        ("config.json", {"parts": [{"_experts_implementation": {"text": "flash|evil/kernel:x"}}]}),
    ],
)
def test_patterns_that_take_for_ever_and_code_from_elsewhere_are_refused(
    name: str, fields: dict[str, Any], folders: Folders, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(folders("gpt2"), folder)
    file = folder / name
    stated = json.loads(file.read_text("utf-8")) if file.is_file() else {"peft_type": "LORA"}
    file.write_text(json.dumps(stated | fields), "utf-8")
    for read in (load_model, ExplicitMamba2ForCausalLM.from_pretrained):
        with pytest.raises(
            InputError, match=r"repeats too much; give names|asks for code from elsewhere, .*kernel"
        ):
            read(folder)


@pytest.mark.parametrize("form", ["bfloat16", "shards", "bin", "shards of bin"])
def test_an_ordinary_model_is_loaded_in_every_form(form: str, tmp_path: Path) -> None:
    """Its vocabulary has nearly all of its weights, which are tied: they are counted three times."""
    model = other_model()
    model.resize_token_embeddings(10**5, mean_resizing=False)
    model = model.bfloat16() if form == "bfloat16" else model
    write_model(model, tmp_path).joinpath("model.safetensors").unlink()
    weights = model.state_dict()
    if form == "bfloat16":
        model.save_pretrained(tmp_path)
    elif form == "shards":
        model.save_pretrained(tmp_path, max_shard_size="5MB")
        assert len(list(tmp_path.glob("*.safetensors"))) > 1
    elif form == "bin":
        torch.save(weights, tmp_path / "pytorch_model.bin")
    else:
        files = {name: f"pytorch_model-{1 + ('wte' in name)}.bin" for name in weights}
        for file in set(files.values()):
            held = {name: weight for name, weight in weights.items() if files[name] == file}
            torch.save(held, tmp_path / file)
        index = {"metadata": {}, "weight_map": files}
        (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    found = load_model(tmp_path)[0].state_dict()
    assert all(torch.equal(found[name], weight) for name, weight in weights.items())


def bad_folders(model: Path, folder: Path) -> dict[str, Path]:
    """A model that is whole, and folders that each lack something."""
    names = ("empty", "broken", "untokenized", "small", "partial", "untyped", "wide")
    named = {name: folder / name for name in names}
    changes: dict[str, dict[str, object]] = {"untyped": {"dtype": "float17"}, "wide": {"hidden_size": 2**63}}
    for name, fields in changes.items():
        shutil.copytree(model, named[name])
        file = named[name] / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), **fields}), "utf-8")
    named["empty"].mkdir()
    (named["broken"] / "piqa").mkdir(parents=True)
    question = {"goal": "to open a door", "sol1": "push", "sol2": "sing"}
    (named["broken"] / "piqa" / "valid.jsonl").write_text(json.dumps(question) + "\n", encoding="utf-8")
    (named["broken"] / "piqa" / "valid-labels.lst").write_text("0\n1\n", encoding="utf-8")
    named["untokenized"].mkdir()
    shutil.copy(model / "config.json", named["untokenized"])
    write_model(
        small_byte_model("ExplicitLlamaForCausalLM", vocab_size=23, pad_token_id=0, eos_token_id=1),
        named["small"],
    )
    shutil.copytree(model, named["partial"])
    weights = named["partial"] / "model.safetensors"
    kept = {name: part for name, part in load_file(weights).items() if ".mixers.0." not in name}
    save_file(kept, weights, {"format": "pt"})
    return {"model": model, **named}
