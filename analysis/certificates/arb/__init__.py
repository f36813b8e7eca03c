"""The checker's own evaluation of models, in FLINT's balls."""
