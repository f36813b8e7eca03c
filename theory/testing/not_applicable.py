"""The outcome of an assertion that does not speak of what it is given."""

from automata.errors import InputError


class NotApplicableError(InputError):
    """The assertion says nothing of this model, so that it can neither pass nor fail.

    Example:
        >>> import torch
        >>> from theory import Transition
        >>> from theory.testing import assert_contractive
        >>> explicit = Transition(lambda z, s: z, lambda z, s: {"h": s["h"].tanh()}, 0, (("h",),))
        >>> assert_contractive(explicit, [{"h": torch.ones(2).double()}])
        Traceback (most recent call last):
        ...
        theory.testing.not_applicable.NotApplicableError: not applicable: the transition has no latent ...
    """
