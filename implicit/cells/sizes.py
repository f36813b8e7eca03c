"""Checks of the sizes that the constructors of cells are given."""

from automata.errors import InputError


def check_at_least_one(**sizes: int) -> None:
    """Raise an error for the first size that is below 1.

    Raises:
        InputError: naming it.

    Example:
        >>> check_at_least_one(heads=4, d_conv=1)
        >>> check_at_least_one(heads=0)
        Traceback (most recent call last):
        automata.errors.InputError: heads is 0; give at least 1
    """
    for name, size in sizes.items():
        if size < 1:
            raise InputError(f"{name} is {size}; give at least 1")
