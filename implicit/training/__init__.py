"""Training: data streams, objective, loop, evaluation."""
