"""Certificates: one format (`certificate`), the kinds of claims and their checks, and the proofs.

A kind is two files: in `claims` what is claimed and how it is checked, in FLINT's balls at 128 bits or more
(`arb`, `iteration`); in `proofs` how it is proved, in float64 balls made of numpy operations
(`theory.rigorous.balls`). They share the format and nothing that computes. `checking` is the one loop that
checks.
"""
