"""The cache of generation: the state of a language model between two calls."""

from dataclasses import dataclass

from torch import Tensor

from theory.transition import State


@dataclass
class SequenceState:
    """The state of a batch after its last real tokens: recurrent states, or keys and values.

    `transformers` hands it on as ``cache`` and reorders its rows in a beam search. The state is named tensors
    with a leading batch axis; ``seen`` counts tokens so far, padding included; ``mask`` is True at real ones,
    ``[batch, seen]``, or None where all are.

    Example:
        >>> import torch
        >>> held = SequenceState({"ssm.0": torch.tensor([[1.0], [2.0]])}, seen=3)
        >>> held.reorder_cache(torch.tensor([1, 1]))
        >>> held.state["ssm.0"].flatten().tolist(), held.get_seq_length()
        ([2.0, 2.0], 3)
    """

    state: State
    seen: int
    mask: Tensor | None = None

    is_compileable = False
    is_linear = (True,)  # of all layers: `generate` then hands over the whole text, and the model cuts it

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the number of tokens so far, padding included."""
        del layer_idx
        return self.seen

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Keep these rows, in this order."""
        self.state = {name: part[beam_idx.to(part.device)] for name, part in self.state.items()}
        if self.mask is not None:
            self.mask = self.mask[beam_idx.to(self.mask.device)]
