"""The models under one interface."""
