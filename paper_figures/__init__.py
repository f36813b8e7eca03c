"""The figures of the paper, drawn from stored results or made from scratch: ``python -m paper_figures``."""
