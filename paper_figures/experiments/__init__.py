"""Experiments: grids of settings and seeds, what is measured of every run, and how they are carried out.

A sweep over settings and seeds is one value: here two models with and without state passing.

    >>> from paper_figures.experiments.grid import Experiment, Grid, Measurement
    >>> grid = Grid(
    ...     axes={"model": ["mamba2", "lstm"], "carried_share": [0.0, 0.9], "seed": range(3)},
    ...     base={"task": "parity"},
    ... )
    >>> steps = Measurement("steps", lambda run, settings: run.metrics[-1]["step"])
    >>> len(Experiment("state_passing", (grid,), (steps,)).points)
    12

`runner.carry_out` does it, in this process, in others, or on a SLURM cluster; what is there is skipped.
"""
