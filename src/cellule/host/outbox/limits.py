"""Every number of the outbox, in one place."""

from __future__ import annotations

# Rows and receipts
PARAMS_INLINE_MAX = 32_000  # format: longer params are put into the CAS and linked from the row
RECEIPT_INLINE_MAX = 32_000  # format: so are longer receipts, from the inbox item
ERROR_CHARS_MAX = 1_000  # of the last error, kept in a row or told by a receipt

# The pool
WINDOW_ROWS = 10_000  # rows of one kind held in memory; more wait in the store
WINDOW_BYTES = 64_000_000  # of rows of all kinds held in memory; each has the same share
GIVE_WAY_ROWS = 100  # rows of one key left to the store at once, to make room for other keys
TAKE_MAX = 256  # attempts begun after one look at the markers
MAY_BEGIN_S = 0.001  # how long an answer holds that attempts may begin; giving it looks at files
STUBBORN_S = 5.0  # how long a cancelled attempt may go on before its place is given to another
SCAN_PAGE = 1_000  # rows read at once
SCAN_S = 5.0  # how often the store is searched for rows that nobody announced
SCAN_SHARE = 20  # a search that took long is not repeated before this many times its duration
UNREADABLE_KEPT = 100  # unreadable rows remembered by key
CLOSE_MAX = 1_000  # settled intents looked up at once
GRACE_S = 5.0  # how long a closing pool waits for running attempts
DELAY_MAX_S = 86_400.0  # the longest pause between attempts, whatever the other side asks for
BURST_S = 0.1  # a rate limit lets through at once what gathers in this time

# Writing
CHANGES_MAX = 500  # receipts and moves of one world in one batch
CHANGES_BYTES_MAX = 4_000_000
PROGRESS_SAVE_S = 1.0  # how long reported progress may be in memory only
GATHER_TURNS = 32  # of the loop, in which outcomes join a batch as long as more of them come

# Notes
NOTES_KEPT = 64  # newest notes of an intent, for who begins to watch later
NOTES_WAITING_MAX = 1_000  # notes a slow reader may have waiting; older ones are dropped

# Reading
REPAIR_PAGE = 1_000
