"""Measured of the runs of figures: functions from a run and settings to numbers by name."""
