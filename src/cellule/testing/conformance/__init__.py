"""One suite per contract, run against every implementation of it."""
