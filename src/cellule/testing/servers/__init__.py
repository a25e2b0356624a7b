"""Real servers for tests and benchmarks: started in a temporary folder on 127.0.0.1, gone afterwards."""
