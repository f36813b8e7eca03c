"""The models, and the rounding of their programs, in FLINT's balls: what all checkers evaluate with."""
