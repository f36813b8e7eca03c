"""The backends of the gated delta rule."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from implicit.ops.backends import Backend, Backends, Preference
from implicit.ops.delta_rule.chunked import delta_rule_chunked
from implicit.ops.delta_rule.reference import delta_rule_reference

DeltaRule = Callable[..., tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Request:
    """What decides who can run the delta rule: nothing yet, both forms take all that `delta_rule` takes.

    Attributes:
        device: type of the device that holds the tensors, such as ``"cpu"`` or ``"cuda"``.

    Example:
        >>> BACKENDS.choose(Request("cpu"))
        'chunked'
    """

    device: str


BACKENDS: Backends[Request, DeltaRule] = Backends(
    {"reference": Backend(delta_rule_reference), "chunked": Backend(delta_rule_chunked)},
    on_gpu=Preference("chunked", "where its matrix products are the fastest that there is"),
    elsewhere=Preference("chunked", "where it is the fastest"),
)
