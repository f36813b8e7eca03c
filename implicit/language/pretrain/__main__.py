"""Pretrain a language model: ``python -m implicit.language.pretrain CONFIG.yaml --out runs/model``.

On several devices: ``accelerate launch -m implicit.language.pretrain CONFIG.yaml --out runs/model``.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from transformers.utils.logging import disable_progress_bar

from automata.errors import InputError, printable
from implicit.command_line import CommandParser, run_command
from implicit.language.pretrain.config import PretrainConfig, read_config
from implicit.language.pretrain.folder import PretrainFolder
from implicit.language.pretrain.loop import make_accelerator, pretrain
from implicit.language.pretrain.tokens import tokenizer_of, vocabulary_size
from implicit.language.sizes import parameter_count
from implicit.threads import add_threads_flag, chosen_threads


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = CommandParser("python -m implicit.language.pretrain", (__doc__ or "").splitlines()[0])
    parser.add_argument("config", metavar="CONFIG.yaml", help="what is trained on what")
    parser.add_argument("--out", required=True, help="the folder of the run; begun before, it goes on")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a field that is other than in the file, such as optimizer.learning_rate=0.001; several times",
    )
    parser.add_argument("--cpu", action="store_true", help="train on the CPU even where there is a GPU")
    add_threads_flag(parser)
    parser.add_argument("--progress", action="store_true", help="show a bar")
    parser.add_argument("--tensorboard", action="store_true", help="write event files into the folder, too")
    given = parser.parse_args(argv)
    config = read_config(given.config, tuple(given.set))
    disable_progress_bar()  # of every file that is written
    accelerator = make_accelerator(config, cpu=given.cpu)
    try:
        with chosen_threads(given.threads, lambda: _parameters(config)):
            found = pretrain(
                config, Path(given.out), accelerator, progress=given.progress, tensorboard=given.tensorboard
            )
    except FloatingPointError as error:
        raise InputError(str(error)) from error
    except KeyboardInterrupt:
        folder = PretrainFolder(Path(given.out))
        if accelerator.is_main_process and folder.begun and not folder.finished:
            stored = f"step {folder.last_checkpoint():,} is stored"
            print(f"{printable(given.out)} is not finished: {stored}", file=sys.stderr)
        raise
    finally:
        accelerator.end_training()
    if accelerator.is_main_process:
        perplexity = "beyond float64" if found["perplexity"] is None else f"{found['perplexity']:.2f}"
        print(
            f"{printable(given.out)} is finished: {found['parameters']:,} parameters, "
            f"{found['tokens']:,} tokens, {found['seconds']:.0f} s; perplexity {perplexity} "
            f"({found['validation_loss']:.4f} nats per token) on {found['validation_tokens']:,} tokens"
        )


def _parameters(config: PretrainConfig) -> int:
    choice = config.tokenizer
    number = choice if isinstance(choice, int) else vocabulary_size(tokenizer_of(choice, config.train))
    return parameter_count(config.model.build(number))


if __name__ == "__main__":
    sys.exit(run_command(main))
