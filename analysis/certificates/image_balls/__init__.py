"""Certificates that the simultaneous mode ends in the right answers, by balls that hold all images."""
