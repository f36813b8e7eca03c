"""Sizes that make any registered model small: one table for every test that goes through all of them."""

from typing import Any

from implicit.models.registry import MODELS, size_names

SMALL: dict[str, Any] = {
    "d_model": 8,
    "d_state": 4,
    "head_size": 4,
    "d_conv": 3,
    "groups": 2,
    "heads": 2,
    "key_value_heads": 1,
    "key_size": 4,
    "value_size": 3,
    "dictionary_size": 3,
}

CONSTANT_STATE = [name for name, model in MODELS.items() if not model.state_grows]


def small_sizes(name: str) -> dict[str, Any]:
    """Return the small sizes that a model has."""
    return {size: value for size, value in SMALL.items() if size in size_names(name)}
