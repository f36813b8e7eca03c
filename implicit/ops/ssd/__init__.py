"""The state space dual (SSD) scan of Mamba-2: the reference, the fast forms, and the choice among them."""

from implicit.ops.backends import Explanation as Explanation
from implicit.ops.ssd.chunked import ssd_chunked as ssd_chunked
from implicit.ops.ssd.dispatch import (
    BACKENDS as BACKENDS,
    Request as Request,
    Scan as Scan,
    explain as explain,
    ssd as ssd,
)
from implicit.ops.ssd.reference import (
    ssd_reference as ssd_reference,
    ssd_states as ssd_states,
    ssd_step as ssd_step,
)
