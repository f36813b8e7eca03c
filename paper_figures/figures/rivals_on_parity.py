"""Parity: which families learn it at 32 tokens and keep it, at the learning rates that were chosen on S3."""

from paper_figures.figures.rivals import LENGTH, NON_LINEAR, rivals_on

SIGNED = ("pd-ssm", "gated-deltaproduct", "deltanet", "mamba3")  # eigenvalues of a step may be −1
FIGURE = rivals_on(
    "parity",
    "Parity by family, at the learning rates of S3",
    "trained on pieces of 32 tokens of parity, non-linear RNNs, implicit models and linear RNNs with "
    f"eigenvalues of −1 answer 0.95 of the sequences of {LENGTH:,} right; Mamba-2 and Transformers do not",
    (*NON_LINEAR, *SIGNED),
)
