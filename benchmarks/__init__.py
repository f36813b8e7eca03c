"""What the toolkit costs, timed behind correctness checks: ``python -m benchmarks [NAME ...] [--list]``."""
