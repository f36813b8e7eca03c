"""Certificates of words of every length."""
