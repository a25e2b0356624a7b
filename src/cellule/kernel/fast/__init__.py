"""The short ways of plain events, steps, requests and receipts: the same bytes as the general way."""
