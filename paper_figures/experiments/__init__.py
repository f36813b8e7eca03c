"""Experiments: grids of settings and seeds, what is measured of every run, and how they are carried out."""
