"""Benchmarks: `python -m bench [NAME ...] [--json]`. Speeds are ratios within one run: machines are noisy."""
