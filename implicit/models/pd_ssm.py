"""The model of PD-SSM-like cells: transitions that move the entries of the state and multiply them."""

from implicit.cells import PDSSMCell
from implicit.models.explicit import explicit_model

PDSSM = explicit_model(
    "pd-ssm",
    PDSSMCell,
    "linear, not diagonal: entries of the state are moved, as the token says, and multiplied",
)
