"""The kernel's numbers. Those marked *format* change the bytes of frames or snapshots.

The limits of manifests stand in `manifest/limits.py`.
"""

from __future__ import annotations

FORMAT_VERSION = 0  # format: stays 0 until forks and eras are done

FRAME_BYTES_CLOSE = 2_000_000  # a beat steps no more once its frame is this long
FRAME_BYTES_ADMIT = 1_000_000  # and admits no more once it is this long: the rest belongs to the steps
FRAME_BYTES_MAX = 6_000_000  # no frame is longer: it has to fit a commit, with the rows beside it
OPENING_BYTES = 450  # about what the rows of an intent take in its frame's commit, beside what it holds
GRANT_INLINE_MAX = 1_000  # format: bytes of a grant in the rows of its effects; a longer one is linked
OUTPUT_BYTES_MAX = 1_000_000  # one step's state, events, reply and annotation together
ABI_OUTPUT_BYTES_MAX = 4_000_000  # the envelope of a program's answer: its parts, their names and heads
MAP_ENTRIES_MAX = 10_000  # entries of the whole map of a module with `cell_mode: false`
MAP_BYTES_MAX = 1_000_000  # bytes of such a map: it is the output of each of its steps
SPILL_CELLS_PER_BEAT = 1_000  # entries of such a map that one beat makes cells of, when it is moved to cells
SPILL_MESSAGES_PER_BEAT = 1_000  # messages that wait for it, and that one beat hands to the cells
EVENT_BYTES_MAX = 1_000_000  # one event's value
RECEIPT_BYTES_MAX = 1_000_000  # the value of one receipt
STEP_EVENTS_MAX = 10_000  # events one step may emit
ERROR_TEXT_MAX = 4_000  # characters of a failure kept in its record
DENIAL_TEXT_MAX = 1_000  # characters of the reason for which a request is denied
REFUSAL_CODE_MAX = 200  # characters of the code of a refusal
DEPTH_MAX = 1_000  # emits in a chain before the cascade is stopped
QUOTA_DEFAULT = 10_000  # steps a beat
BURST_DEFAULT = 64  # messages of one cell a beat
LOAD_SLOTS_MAX = 1_024  # cells brought in together when a restored ring is walked
TIMERS_PER_BEAT_MAX = 10_000  # due timers handled in one beat; the rest wait for the next
SWEEP_CELLS_MAX = 1_000  # cells a beat looks at after a deploy that made their retention shorter
STEP_EFFECTS_MAX = 1_000  # effects one step may ask for
STEP_CANCELS_MAX = 1_000  # keys of earlier requests that one step may cancel
CELL_INTENTS_MAX = 1_000  # open intents of one cell; further requests are denied
CELL_CALLS_MAX = 1_000  # calls that a cell has taken and not answered; the oldest is told for a further one
CELL_CALLS_BYTES_MAX = 64_000  # and bytes of them: they stand in the cell's entry, and 96 entries in a chunk
APPROVALS_OPEN_MAX = 100_000  # parked intents of a world; further ones are denied
TIMERS_OPEN_MAX = 10_000_000  # timers that steps have set and that have not fired; further ones are denied
OUTSIDE_NS_MAX = 366 * 86_400 * 1_000_000_000  # how long an effect may wait to be completed from outside
BUDGET_SPENDERS_MAX = 100_000  # cells or values that a grant's budget counts apart, in one period
WAITERS_MAX = 100  # open intents that may wait for one idempotency key
QUEUE_MESSAGES_MAX = 100_000  # format: messages that wait at one cell; further events are refused
QUEUE_BYTES_MAX = 64_000_000  # bytes of them in memory; further events are refused
QUEUE_SHORT = 64  # messages; a stopped cell with no more leaves memory like a cell at rest
HELD_CELLS_MAX = 100_000  # cells that wait because their module is at its limit; events for more are refused
HELD_RELEASE_MAX = 1_000  # cells a beat brings back when their module is below its limit again
FORK_INTENTS_PER_BEAT = 1_000  # open intents that one beat of a fork deals with
IDEMPOTENCY_FORGET_PER_ADD = 2  # old idempotency keys forgotten for each new one
DROP_PER_CONTROL_MAX = 1_000  # messages that one drop takes out of queues
MIGRATE_SCAN_MAX = 10_000  # cells one migration of all looks at; the control tells where it goes on
MIGRATE_SCAN_PAGE = 1_000
MIGRATE_STAYS_MAX = 100  # cells that a migration of all names because they cannot be moved
MIGRATE_REASON_MAX = 500  # characters of such a reason
RESUME_PER_CONTROL_MAX = 10_000  # cells one bulk resume releases; the control tells whether there are more

PATH_BYTES_MAX = 4_096  # of a path of the world tree, with its slashes
PATH_SEGMENTS_MAX = 128  # of a path of the world tree

IMPULSES_PER_BEAT_MAX = 10_000  # impulses that may be queued for one beat; more are refused, with a record
IMPULSES_QUEUED_MAX = 1_000_000  # impulses that may wait in a world, for all beats together
CANDIDATES_MAX = 10_000  # entries that one impulse may resolve to; one with more resolves to nothing
BINDINGS_PER_NODE_MAX = 1_000  # names bound to one node of the tree
REGISTRY_MAX = 1_000_000  # entries of a world's registry
AGENDA_BYTES_MAX = 2_000_000  # an agenda that fills so much of a frame goes on in the next beat
RUN_ACTIONS_MAX = 10_000  # what one run of an enzyme may write, emit, bind and ask for, together
RUN_READS_MAX = 100_000  # nodes of the tree that one run may read
DELETE_NODES_MAX = 10_000  # nodes of the tree that one deletion takes away
DELETE_BYTES_MAX = 1_000_000  # about how many bytes the records of that take
LIST_NODES_MAX = 10_000  # names in one page of a listing of the tree
ENTRY_BYTES_MAX = 30_000  # of an entry of the registry; 256 of them stand in a chunk
RETRY_LIMIT_DEFAULT = 16  # retries of an impulse by one entry, unless it says otherwise
RETRY_LIMIT_MAX = 10_000
BACKOFF_BEATS_MAX = 1_000_000
BEAT_INTERVAL_NS_DEFAULT = 1_000_000_000  # between beats that only count, while deadlines in beats wait
OPERATION_HISTORY_MAX = (
    1_000  # entries of an operation's history; then it takes no further state, only the close
)
OPERATION_WATCHERS_MAX = 1_000  # watchers of an operation; further ones are refused
OPERATION_BYTES_MAX = 1_000_000  # of an operation; then it takes no further state and no further watcher
OPERATION_TEXT_MAX = 1_000  # characters of a verb, state, note, want, continuation or summary
OPERATION_TTL_MAX = 2**53  # beats
OPERATIONS_FIRED_MAX = 10_000  # operations whose watchers fire at the end of one beat; the rest at the next
PUBLISHED_BEATS_MAX = 10_000_000  # beats whose wall clock a world publishes

SHADOW_RECEIPTS_MAX = 10_000  # receipts that wait in a shadow run for their requests; more are left out
SHADOW_UNMATCHED_MAX = (
    100_000  # steps that one of two runs is ahead of the other; beyond it a shadow run ends
)
SHADOW_CELLS_MAX = 100_000  # cells with differences that a shadow run tells apart; beyond it it ends
SHADOW_SETTLE_MAX = 10_000  # beats after which the cells of a shadow run must have come to rest
SHADOW_EXAMPLES_MAX = 20  # cells of which a shadow run shows the first difference

KEYS_HELD_MAX = 100_000  # erasure keys of a world in memory; others are read again
SEAL_KEYS_MAX = 64  # cells that can be erased which one event goes to; one for more is refused
ERASE_CELLS_MAX = 1_000  # cells that one control erases
ERASE_ENDS_MAX = 2_000  # open effects and unanswered calls that it ends with them, unless it is one cell
CONTROL_RECORD_BYTES_MAX = 1_500_000  # of a control, with what the kernel writes into it

CELL_PAGE_BYTES = 8_000_000  # states that one page of cells holds; the cell that exceeds it is its last

STATE_INLINE_RECORD_MAX = 4_096  # format: longer states are blocks of their own, linked from the record
PARAMS_INLINE_MAX = 1_024  # format: longer params and remembered receipts are linked blocks
STATE_INLINE_INDEX_MAX = 512  # format: longer states are linked from the cell entry
QUEUE_INLINE_MAX = 8  # format: longer queues are indexes of their own, linked from the cell entry
MESSAGE_INLINE_MAX = 1_024  # format: longer values of messages at rest are linked blocks
LOG_CHUNK_BYTES = 32_768  # format: a log state's tail is sealed into a chunk at this size

DEDUPE_WINDOW_NS = 7 * 86_400 * 1_000_000_000  # format
DEDUPE_IDS_MIN = 100_000  # format: kept even when older than the window
DEDUPE_IDS_MAX = 1_000_000  # format: beyond it the oldest bucket leaves early
DEDUPE_KEPT_NS = 60 * 1_000_000_000  # format: but not before this: then a further id is refused
DEDUPE_BUCKET_IDS = 65_536  # format: a bucket closes when it holds this many
DEDUPE_CONFLICTS_MAX = (
    65_536  # format: ids that a version conflict left unused; beyond it the older half is used
)
