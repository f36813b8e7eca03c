"""The model of PD-SSM-like cells: transitions that move the entries of the state and multiply them.

It has no implicit twin. A cell chooses where entries go by a largest score, so the self-map of a twin would
jump where the latent changes the choice; at such a token the iteration goes round between two choices and
there need not be a fixed point. (It converges to rounding wherever the choice is the same for all latents.)
"""

from implicit.cells import PDSSMCell
from implicit.models.explicit import explicit_model

PDSSM = explicit_model(
    "pd-ssm",
    PDSSMCell,
    "linear, not diagonal: entries of the state are moved, as the token says, and multiplied",
)
