"""The outbox: rows that frames leave behind, and the pool of adapters that turns them into receipts."""
