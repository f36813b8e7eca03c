"""Penalties that a training objective may hold."""
