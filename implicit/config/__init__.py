"""Everything that determines a training run."""
