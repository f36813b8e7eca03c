"""Code written for PyTorch, evaluated on balls: values and derivatives of the same formula, enclosed."""

from theory.rigorous.tensors.enclosed_tensor import EnclosedTensor as EnclosedTensor
from theory.rigorous.tensors.transitions import (
    EnclosedTransitionBatch as EnclosedTransitionBatch,
    WholeUpdate as WholeUpdate,
)
