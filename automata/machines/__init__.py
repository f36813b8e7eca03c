"""Deterministic automata: acceptors, machines that answer after every token, and what relates them."""
