"""Experiments: grids of settings and seeds, measurements of every run, and the runner."""
