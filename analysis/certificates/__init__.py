"""Certificates of Theorem 1 and of all words: their format, who makes them, and who checks them.

The producer proves in float64 balls made of numpy operations (`theory.rigorous.balls`); the checkers in
FLINT's balls at 128 bits or more (`arb_*`, `*checker`). They share the format and nothing that computes.
"""
