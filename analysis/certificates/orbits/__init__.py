"""Certificates that the iteration from zero ends near the fixed points of a proof."""
