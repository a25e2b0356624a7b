"""Every number of the host, in one place."""

from __future__ import annotations

# Beats and commits
BEAT_ITEMS_MAX = 2_000  # items handed to one beat
BEAT_ITEMS_EARLY = 500  # while the disk has nothing to do: a short beat gives it work sooner
BEAT_BYTES_MAX = 4_000_000  # bytes of inbox items taken for one beat
DIRECT_MAX = 100_000  # items waiting for a beat; then `send_nowait` and `send_many` wait
UNCOMMITTED_BEATS_MAX = 64  # beats of a world's own work that may gather behind a commit
UNCOMMITTED_BYTES_MAX = 4_000_000  # or their bytes; then the world waits for the disk
COMMIT_BYTES_MAX = 6_000_000  # frames and blocks of one commit
PARTS_MAX = 200  # blocks that travel in the frame's own batch; more, or more bytes, are put before it
PARTS_BYTES_MAX = 1_000_000
FRAME_PART_BYTES = 65_536  # format: a longer frame is stored in parts
BACKOFF_FIRST_S = 0.01  # first pause after the store could not be reached
BACKOFF_MOST_S = 2.0
STALL_S = 5.0  # those who wait are told when the store has failed for this long
LOGGED_STEPS_MAX = 20  # failed steps of one beat that have a line each in the log
ATTEMPTS_MAX = 8  # times a small commit of unknown outcome is submitted

# Ownership
FOLDER_LOOK_S = 0.5  # how often a process without the folder tries its lock, and one with it looks at it
FOLDER_GRAIN_S = 3.0  # no file system tells the times of two changes that lie this far apart as one
FOLDER_GRAIN_FINE_S = 0.1  # nor does one whose times are finer than `FOLDER_FINE_NS`
FOLDER_FINE_NS = 10_000_000
OWNER_LOOK_S = 1.0  # how often a guest that waits, and never owns, looks whether anybody does
OWNERLESS_S = 30.0  # then it is told that nobody works on its event
SESSION_TTL_S = 10.0  # a node that has not renewed its session for this long is displaced
SESSION_TTL_S_MIN = 0.5
SESSION_TTL_S_MAX = 600.0
SESSION_RENEWALS = 3  # renewals within that time
SESSION_MARGIN = 0.1  # the part of it that an owner does not count on: clocks run at different rates
SESSION_RETRY_S = 0.2  # pause after the store could not be reached
SESSION_RELEASE_S = 5.0  # how long an end tries to release its session
SESSION_CONNECTIONS = 2  # to the store, of the thread that renews
SESSIONS_MAX = 1_000  # nodes on one store

# Sending
EVENT_INLINE_MAX = 32_000  # a longer event travels through the inbox as a link
SEND_SLICE = 1_000  # events of `send_many` handed over at once
ID_BYTES_MAX = 1_000  # of an event's or a verb's id
CORRELATION_CHARS_MAX = 1_000  # of a correlation
WHO_CHARS_MAX = 500  # of who does something; of the name of a schedule
WHY_CHARS_MAX = 10_000  # of the reason that is journaled with it
ARGUMENT_CHARS_MAX = 100_000  # of a text that is given to a call
CONTROL_BYTES_MAX = 100_000  # of one argument of an operator's verb
INBOX_CONTROL_BYTES_MAX = (
    89_000  # of a verb with who, why and arguments, as another process than the owner puts it
)
SHOWN_MAX = 80  # characters of an argument that a refusal shows

# Snapshots
SNAPSHOT_TAIL_BYTES = 32_000_000  # a snapshot is taken when the tail is longer
SNAPSHOT_RESTORE_S = 1.7  # or when restoring after a crash would take longer, as far as can be told
RESTORE_RECORD_S = 7e-6  # what a record costs then, on a common machine
RESTORE_CELL_S = 4e-6  # each cell that changed
RESTORE_CHUNK_S = 22e-6  # and each chunk of cells that is read for them
SNAPSHOT_SLICE_RECORDS = 400  # one more slice is written after a beat for so many records of it
SNAPSHOT_LOOK_RECORDS = 100  # how long a restore would take is looked at again after so many records
SNAPSHOT_CLOSE_BYTES = 1_000_000  # and at a clean close when it is longer than this
SNAPSHOTS_KEPT = 2  # besides the first one, of the empty world
SNAPSHOTS_KEPT_MAX = 50  # as many as a world may be told to keep
SNAPSHOT_RETRY_S = 5.0  # pause after a snapshot could not be written or saved; it doubles each time
SNAPSHOT_RETRY_MOST_S = 600.0

# Worlds on a node
IDLE_S = 60.0  # a world without work is let go after this
BEAT_INTERVAL_S = 1.0  # between beats of a world that only count, while deadlines in beats wait
BEAT_INTERVAL_S_MIN = 0.01
LEFT_COLLECT = 500  # worlds that leave memory before what they leave behind is collected
WORLDS_MAX = 1_000  # worlds in memory at once; the longest idle leave first
FAILED_REST_S = 60.0  # a world that was stopped by damage or a defect is not roused by itself for this long
LOOK_S = 1.0  # how often due timers and idle worlds are looked for
CLOCK_JUMP_MAX_S = 366 * 86_400  # a clock further ahead of the last beat is not believed until it is accepted
CLOCK_AHEAD_S = 60  # a world further ahead of the clock is shown by `stuck`, `doctor` and a log line
CLOCK_LOOK_S = 10.0  # how long a world trusts that the wall clock did not jump
WAKE_PAGE = 1_000  # wake rows read at once
SWITCH_INTERVAL_S = 0.0002  # thread switching: the default delays the writer thread's commits
COLLECT_EVERY = 50_000  # new objects before garbage is looked for; 700, the default, costs a fifth of a beat

# Reading
FRAMES_PAGE = 256  # rows read at once when frames are read back
INBOX_PAGE = 500  # inbox rows read at once
BROUGHT_MAX = 10_000  # receipts kept at hand for a world that has not taken them; more are read
LOOK_PASSES = 8  # beats that take what is at hand before the inbox is looked at all the same
READ_KEPT = 2_000  # receipts remembered that were read before their writer had its answer
NODES_FETCH_MAX = 500  # CAS nodes read at once
CELLS_SCAN_MAX = 10_000  # cells that one page of a list with `where` looks at
HISTORY_MAX = 10_000  # versions one history call returns

HISTORY_SCAN_BYTES = 64_000_000  # of the journal, that one history call looks at for earlier lives
FRAMES_KEPT = 8  # decoded frames that a reader of one world keeps
SUGGESTIONS_MAX = 1_000  # names compared when an error suggests similar ones
DOCUMENT_BYTES_MAX = 8_000_000  # of a file with a manifest
MIGRATE_PREVIEW_BEATS_MAX = 1_000  # beats of a migration that a preview does on its copy
MIGRATE_PREVIEW_STAYS_MAX = 1_000  # cells that a preview names because they cannot be moved
SHADOW_RECENT = 10_000  # records that a shadow run takes unless it is told otherwise
SHADOW_RECORDS_MAX = 10_000_000  # records of one shadow run; it says where it ended
SHADOW_BLOCKS_BYTES_MAX = 512_000_000  # long values that one shadow run keeps in memory

# Storage
ROOTS_PAGE = 256  # rows read at once when roots are looked for
PINS_MAX = 10_000  # pins of a universe
PIN_BLOCKS_MAX = 1_000  # blocks of one pin; each keeps what it links
PIN_S_MAX = 366 * 86_400.0  # a pin lasts no longer
DEPLOY_PIN_S = 3_600.0  # a manifest is kept until its deploy is journaled, and no longer
COLLECT_PAGE = 500  # objects examined by a sweep in one go
COLLECT_READ = 100  # objects whose links are read in one go
COLLECT_MARKS = 5_000  # marks written in one batch
COLLECT_GRACE_S = 3_600.0  # what nothing links stays for at least so long after it was put
COLLECT_INTERVAL_S = 6 * 3_600.0  # between two collections of a universe that a node begins by itself
COLLECT_LOOK_S = 600.0  # how often a node looks whether a collection is due
COLLECT_NODES_BYTES = 4_000_000  # of blocks that a collection keeps at hand
COLLECT_SHARE = 0.2  # of the time that a collection by itself takes; the rest is left to the worlds
COLLECT_CLAIM_S = 300.0  # a collection that has not moved for so long may be taken over
EXPLAIN_OBJECTS_MAX = 5_000_000  # objects looked at to explain why one is kept
COMPACT_SHARE = 0.1  # of the time that a compaction by itself takes; the rest is left to the worlds
SEGMENT_BYTES = 3_000_000  # frames of one segment, about; one frame may be longer
SEGMENT_BYTES_MIN = 1_000_000  # less stays in rows, unless somebody asks for it
SEGMENT_CLEAR_BYTES = 2_000_000  # of frames whose rows go in one batch
TAIL_RECORDS = 100_000  # newest records that stay in rows
TAIL_S = 3 * 86_400.0  # records that are older leave the rows, too
HOLDS_MAX = 1_000  # holds of one world's history
CAR_HEADER_BYTES_MAX = 10_000  # of an exported file
CAR_BLOCKS_MAX = 2_000_000  # blocks of an exported file
CAR_BLOB_BYTES_MAX = 4_000_000_000  # one raw block of it; nodes are values, which have their own limit
CAR_PIECE_BYTES = 1_000_000  # read or written at once
EXPORT_READ = 64  # blocks read at once by an export
EXPORT_PIN_S = 86_400.0  # an export keeps what it copies for so long
EXPORT_FRAME_BYTES = 4_000_000  # of a redacted frame; records beyond are blocks of their own
EXPORT_VERSIONS_MAX = 100_000  # steps of an exported cell
LINEAGE_MAX = 1_000  # worlds that one was forked from, one from the other
QUOTA_MAX = 1 << 62  # a quota's number
QUOTA_BURST_S = 2  # seconds of events that a universe may send at once
QUOTA_LOOK_S = 15.0  # how often the owner reads quotas and measures universes that have some
QUOTA_COUNT_S = 1.0  # how often the owner and its guests tell each other how many events they took
QUOTA_COUNTED_S = 10  # seconds whose events are looked at, and whose counters stay
EXPORT_KEYS_MAX = 100_000  # erasure keys in one file
KEY_ROWS_TOGETHER = 1_000  # rows of erasure keys read or written at once
EXPORT_CELL_PAGE = 200  # steps of one block of an exported cell
