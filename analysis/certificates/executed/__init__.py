"""Certificates that a compiled model, executed in floating point, is right on words of every length."""
