"""Certificates that the simultaneous mode ends in the answers that are proved right, too."""
