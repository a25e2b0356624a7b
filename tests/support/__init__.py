"""What only the tests and benchmarks of this repository use."""
