"""Certificates of Theorem 1: their format, who makes them, and who checks them.

The producer proves in float64 balls made of numpy operations (`theory.balls`); the checker in FLINT's balls
at 128 bits or more (`arb_mamba2`, `checker`). They share the format and nothing that computes.
"""
