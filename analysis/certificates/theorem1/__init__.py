"""Certificates of Theorem 1 at visited states."""
