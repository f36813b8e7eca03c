"""Text as tokens: tokenizers, files of one long row of tokens, and the windows that each step reads."""

import hashlib
import json
import os
from collections.abc import Iterator
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from torch.utils.data import Dataset, Sampler
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode

from automata.checks import check_memory
from automata.data_files import data_file, open_regular, without_repetition
from automata.errors import InputError
from implicit.language.pretrain.config import Source

END_OF_TEXT = "<|endoftext|>"
BYTES_OF_A_TOKEN = 64
"""Memory of `tokenizers` for each token asked for; it aborts where there is too little."""
_BATCH = 1000
"""Documents that are encoded together."""


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Return the tokenizer whose tokens are the 256 bytes, in their order, and one that ends a document.

    Example:
        >>> tokenizer = byte_tokenizer()
        >>> tokenizer.encode("né"), tokenizer.decode([110, 195, 169]), tokenizer.eos_token_id
        ([110, 195, 169], 'né', 256)
    """
    vocabulary = {character: byte for byte, character in bytes_to_unicode().items()}
    return _wrapped(_on_bytes(models.BPE(vocab=vocabulary, merges=[])))


def train_tokenizer(documents: Iterator[str], size: int) -> PreTrainedTokenizerFast:
    """Return a byte-level byte-pair encoding of so many tokens, or of all pairs if the text has no more.

    InputError for fewer than 257 tokens (all bytes, and the end of a document) or more than memory holds.
    Source: Sennrich et al. 2016, arXiv 1508.07909; on bytes as in GPT-2.

    Example:
        >>> tokenizer = train_tokenizer(iter(["low lower lowest " * 9]), 260)
        >>> len(tokenizer), tokenizer.decode(tokenizer.encode("lower ñ"))
        (260, 'lower ñ')
    """
    if size < 257:
        raise InputError(
            f"tokenizer is {size}; give at least 257 tokens, 256 bytes and the end of a document"
        )
    check_memory(f"a tokenizer of {size} tokens", BYTES_OF_A_TOKEN * size, "give a smaller tokenizer")
    tokenizer = _on_bytes(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer)
    return _wrapped(tokenizer)


def _on_bytes(model: models.BPE) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _wrapped(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END_OF_TEXT,
        pad_token=END_OF_TEXT,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def tokenizer_of(choice: str | int, train: Source) -> PreTrainedTokenizerBase:
    """Return the tokenizer that a configuration names, or train it; refuse one without an end of text."""
    if choice == "bytes":
        return byte_tokenizer()
    if isinstance(choice, int):
        if any(name.endswith(".npy") for name in train.files):
            raise InputError(
                f"tokenizer is {choice}, and train.files are tokens already; name their tokenizer"
            )
        return train_tokenizer(documents(train), choice)
    try:
        if choice.endswith(".json"):
            found: Any = PreTrainedTokenizerFast(tokenizer_file=choice)
            found.eos_token = found.eos_token or END_OF_TEXT
        else:
            found = AutoTokenizer.from_pretrained(choice, trust_remote_code=False)
    except Exception as error:  # what tokenizers raise of a bad file has no class of its own
        raise InputError(
            f"tokenizer {choice!r} cannot be read ({_reason(error)}); give 'bytes', a number of tokens, a "
            "folder with a tokenizer or a tokenizer.json"
        ) from error
    if found.eos_token_id is None:
        raise InputError(f"tokenizer {choice!r} has no token that ends a document; give one with eos_token")
    return found


def documents(source: Source) -> Iterator[str]:
    """Read the documents of a source, one after the other."""
    for name in source.files:
        try:
            if name.endswith(".jsonl"):
                yield from _json_lines(data_file(name), source.field)
            else:
                yield _whole(data_file(name)).decode("utf-8-sig")
        except OSError as error:
            raise InputError(f"{name} cannot be read ({error.strerror}); give a text file") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{name} is not UTF-8 ({error}); convert it") from error
        except InputError:
            raise
        except ValueError as error:  # of paths that no file can have
            raise InputError(f"{name!r} cannot be read ({error}); give a text file") from error
    if source.dataset is not None:
        yield from _rows(source)


def _whole(path: Path) -> bytes:
    with open_regular(path) as file:
        check_memory(f"the text {path}", os.fstat(file.fileno()).st_size, "give .jsonl, read line by line")
        return file.read()


def _json_lines(path: Path, field: str) -> Iterator[str]:
    with TextIOWrapper(open_regular(path), encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                text = json.loads(line, object_pairs_hook=without_repetition)[field]
                text.encode()  # surrogates are in no text
            except InputError as fault:
                raise InputError(f"line {number} of {path} {fault}; name it once") from None
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                text = None
            if not isinstance(text, str):
                raise InputError(
                    f"line {number} of {path} has no text under {field!r}; give JSON with that field"
                )
            yield text


def _rows(source: Source) -> Iterator[str]:
    import datasets

    assert source.dataset is not None
    try:
        if (Path(source.dataset) / "dataset_info.json").exists() or (
            Path(source.dataset) / "dataset_dict.json"
        ).exists():
            rows = _split(datasets.load_from_disk(source.dataset), source)
        else:
            rows = datasets.load_dataset(
                source.dataset, source.configuration, split=source.split, streaming=True
            )
    except InputError:
        raise
    except Exception as error:  # datasets raises many kinds
        raise InputError(
            f"dataset {source.dataset!r} cannot be read ({_reason(error)}); give a folder of save_to_disk or "
            "a name on the Hub"
        ) from error
    for row in rows:
        if not isinstance(row.get(source.field), str):
            raise InputError(
                f"dataset {source.dataset!r} has no text under {source.field!r}; its fields are "
                f"{', '.join(row)}, name one of them with field"
            )
        yield row[source.field]


def _split(found: Any, source: Source) -> Any:
    """The split of a stored dataset; one without splits is what is asked for by default."""
    known = [*found] if isinstance(found, dict) else ["train"]
    if source.split not in known:
        raise InputError(
            f"split is {source.split!r}, and dataset {source.dataset!r} has {', '.join(known)}"
            f"{'' if isinstance(found, dict) else ' only, being one table'}; give one of these"
        )
    return found[source.split] if isinstance(found, dict) else found


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def encoded(source: Source, tokenizer: PreTrainedTokenizerBase) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return all documents as one row of tokens, each ended by the end-of-text token, and where they end.

    Files of tokens, ``.npy``, are taken as they are and mapped into memory, after a look at their smallest
    and largest.

    A document ends after so many tokens and so many bytes of all texts, ``[documents + 1, 2]``, from 0 and 0
    on. Of a file of tokens only the beginning is known.
    """
    ends = [(0, 0)]
    if any(name.endswith(".npy") for name in source.files):
        return _tokens_of(source.files, vocabulary_size(tokenizer)), np.array(ends)
    kind = np.uint16 if vocabulary_size(tokenizer) <= 2**16 else np.uint32
    pieces: list[NDArray[Any]] = []
    texts = filter(None, documents(source))
    while batch := list(islice(texts, _BATCH)):
        found = tokenizer(batch, add_special_tokens=False, split_special_tokens=True, verbose=False)
        pieces.extend(np.array([*row, tokenizer.eos_token_id], dtype=kind) for row in found["input_ids"])
        for text, piece in zip(batch, pieces[-len(batch) :], strict=True):
            ends.append((ends[-1][0] + len(piece), ends[-1][1] + len(text.encode())))
    if not pieces:
        raise InputError(f"{', '.join(source.files) or source.dataset} holds no text; give files with some")
    return np.concatenate(pieces), np.array(ends)


def _tokens_of(files: tuple[str, ...], size: int) -> NDArray[Any]:
    if len(files) != 1:
        raise InputError(f"{', '.join(files)} are several files with tokens among them; give one .npy file")
    try:
        open_regular(data_file(files[0])).close()  # a pipe would be waited for
        tokens: NDArray[Any] = np.lib.format.open_memmap(data_file(files[0]), mode="r")
    except Exception as error:  # NumPy raises many kinds of a header
        raise InputError(
            f"{files[0]} cannot be read ({_reason(error)}); give a row of tokens, by numpy.save"
        ) from error
    if tokens.ndim != 1 or tokens.dtype.kind not in "iu" or not len(tokens):
        raise InputError(
            f"{files[0]} holds {tokens.dtype} of shape {tokens.shape}; give one row of integers, a token each"
        )
    smallest, largest = int(tokens.min()), int(tokens.max())
    if smallest < 0 or largest >= size:
        raise InputError(
            f"{files[0]} holds tokens from {smallest} to {largest}; the tokenizer has 0 to {size - 1}"
        )
    return tokens


def vocabulary_size(tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the largest token plus one: numbers in between may be free."""
    return int(max(tokenizer.get_vocab().values())) + 1


def digest(tokens: NDArray[Any]) -> str:
    """Return the SHA-256 of a row of tokens, by which a resumed run knows its text again."""
    found = hashlib.sha256()
    for first in range(0, len(tokens), 2**24):
        found.update(tokens[first : first + 2**24].astype("<u4").tobytes())
    return found.hexdigest()


class Windows(Dataset[Tensor]):
    """A row of tokens cut into windows that overlap by one token, so that each token is predicted once.

    The end of the row, shorter than a window, is left out.
    """

    def __init__(self, tokens: NDArray[np.integer], length: int, name: str = "the text") -> None:
        if len(tokens) < length:
            raise InputError(
                f"length is {length} and {name} has {len(tokens)} tokens; give a smaller length or more text"
            )
        self.tokens, self.length = tokens, length

    def __len__(self) -> int:
        return (len(self.tokens) - 1) // (self.length - 1)

    def __getitem__(self, place: int) -> Tensor:
        begin = place * (self.length - 1)
        return torch.from_numpy(self.tokens[begin : begin + self.length].astype(np.int64))


class ShuffledWindows(Sampler[list[int]]):
    """The windows of every part of every step: a function of the seed and the step alone.

    Each pass over the text has an order of its own; none of its windows comes again before all were read.
    Steps count from 1; their sequences are those of all processes together.
    """

    drop_last = True

    def __init__(
        self, count: int, sequences: int, parts: int, seed: int, first_step: int, steps: int
    ) -> None:
        self.count, self.sequences, self.parts, self.seed = count, sequences, parts, seed
        self.first_step, self.steps = first_step, steps
        self.batch_size = sequences // parts

    def __len__(self) -> int:
        return max(0, self.steps - self.first_step + 1) * self.parts

    def __iter__(self) -> Iterator[list[int]]:
        order, known = np.empty(0, dtype=np.int64), -1
        for part in range((self.first_step - 1) * self.parts, self.steps * self.parts):
            batch = []
            for place in range(part * self.batch_size, (part + 1) * self.batch_size):
                epoch, offset = divmod(place, self.count)
                if epoch != known:
                    order, known = self._order(epoch), epoch
                batch.append(int(order[offset]))
            yield batch

    def _order(self, epoch: int) -> NDArray[np.int64]:
        sequence = np.random.SeedSequence(self.seed, spawn_key=(epoch,))
        return np.random.default_rng(sequence).permutation(self.count)
