"""A fuzzer of certificates: is every mutation of a certificate refused, or what it says still true?

`targets` makes small certificates, `mutations` changes them as a forger would, and seals them anew. Mutations
that the checker accepts are judged by `truth`, which shares nothing with it: `exact_model` evaluates the
model in mpmath.
"""
