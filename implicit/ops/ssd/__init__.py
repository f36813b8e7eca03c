"""The state space dual (SSD) scan of Mamba-2: the reference, the fast forms, and the choice among them."""

from implicit.ops.backends import Explanation
from implicit.ops.ssd.chunked import ssd_chunked
from implicit.ops.ssd.dispatch import BACKENDS, Request, Scan, explain, ssd
from implicit.ops.ssd.reference import ssd_reference, ssd_states, ssd_step

__all__ = [
    "BACKENDS",
    "Explanation",
    "Request",
    "Scan",
    "explain",
    "ssd",
    "ssd_chunked",
    "ssd_reference",
    "ssd_states",
    "ssd_step",
]
