"""Benchmarks: `python -m bench [NAME ...] [--json] [--quick]`.

Speeds are ratios within one run: machines are noisy, and numbers of two runs do not compare.
"""
