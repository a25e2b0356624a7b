"""Real servers for tests, started on loopback and ended with the test run."""
