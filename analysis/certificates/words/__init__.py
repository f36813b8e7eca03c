"""Certificates of all words up to a length."""
