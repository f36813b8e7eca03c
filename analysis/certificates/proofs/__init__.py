"""The proofs of claims, a file each; `analysis.certify` finds the ``PROOFS`` of every module here.

They prove in float64 balls made of numpy operations (`theory.rigorous.balls`); the checkers in FLINT's
balls at 128 bits or more. They share the format of claims and nothing that computes.
"""
