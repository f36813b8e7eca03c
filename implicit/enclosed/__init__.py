"""Cells and models in rigorous ball arithmetic."""
