"""Monoids and groups as exact multiplication tables."""
