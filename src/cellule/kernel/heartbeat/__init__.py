"""The rules of the heartbeat as pure functions: no ledger, no record, no code of users."""
