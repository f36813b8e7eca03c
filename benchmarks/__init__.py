"""The toolkit's costs, timed behind correctness checks: ``python -m benchmarks [NAME ...] [--list]``."""
