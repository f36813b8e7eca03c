"""Attraction of every latent of the invariant set, by half-spaces that are cut off one after the other."""

from theory.rigorous.attraction.cells import CellMap, Examined, prove_cuts
from theory.rigorous.attraction.polytope import Polytope

__all__ = ["CellMap", "Examined", "Polytope", "prove_cuts"]
