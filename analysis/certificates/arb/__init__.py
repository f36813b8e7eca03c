"""The Mamba-2 model in the ball arithmetic of FLINT, for the checkers."""
