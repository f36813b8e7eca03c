"""Statements proved in ball arithmetic: at points, over boxes, and for words of every length."""
