"""Engine implementations: one module or package each, all under one conformance suite."""
