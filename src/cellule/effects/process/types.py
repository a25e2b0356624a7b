"""What `process.run` is asked for and what it answers, with the limits of both."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from cellule.values.cid import Cid

ARGS_MAX = 1_000
ENV_MAX = 200
TEXT_CHARS_MAX = 100_000  # of one argument; Linux takes 128 kB
STDIN_BYTES_MAX = 900_000  # params have 1 MB in all
TIMEOUT_S = 60.0
TIMEOUT_S_MAX = 3_600.0
MEMORY_BYTES = 512_000_000
MEMORY_BYTES_MIN = 16_000_000
MEMORY_BYTES_MAX = 64_000_000_000
FILE_BYTES = 64_000_000  # of one file the command writes
FILE_BYTES_MAX = 10_000_000_000
OUTPUT_BYTES = 1_000_000  # of each stream
OUTPUT_BYTES_MAX = 16_000_000
INLINE_BYTES = 32_000  # of each stream in the receipt; a longer one is put into the CAS
PROCESSES = 64
PROCESSES_MAX = 1_000

Text = Annotated[str, Meta(max_length=TEXT_CHARS_MAX)]
Stopped = Literal["time", "memory", "processes"]


class ProcessRun(msgspec.Struct, frozen=True, kw_only=True):
    """Run one command without a shell, in an empty folder of its own.

    `command` is a bare name, looked up in the adapter's folders, or an absolute path. `env` is the whole
    environment; its values may hold secrets. The limits hold for the command and all it starts; `file_max`
    for one file. `output_max` is for each of stdout and stderr: what is beyond it is cut.
    """

    command: Text
    args: Annotated[list[Text], Meta(max_length=ARGS_MAX)] = []
    env: Annotated[dict[str, Text], Meta(max_length=ENV_MAX)] = {}
    stdin: Annotated[bytes, Meta(max_length=STDIN_BYTES_MAX)] = b""
    timeout_s: Annotated[float, Meta(gt=0, le=TIMEOUT_S_MAX)] = TIMEOUT_S
    memory_max: Annotated[int, Meta(ge=MEMORY_BYTES_MIN, le=MEMORY_BYTES_MAX)] = MEMORY_BYTES
    file_max: Annotated[int, Meta(ge=0, le=FILE_BYTES_MAX)] = FILE_BYTES
    output_max: Annotated[int, Meta(ge=0, le=OUTPUT_BYTES_MAX)] = OUTPUT_BYTES
    processes_max: Annotated[int, Meta(ge=1, le=PROCESSES_MAX)] = PROCESSES


class ProcessEnded(msgspec.Struct, frozen=True, kw_only=True):
    """How the command ended: by itself with `exit_code`, or by a `signal`; `stopped` names the limit it met.

    Each stream is in the receipt, or in the CAS under `stdout_blob`, `stderr_blob` when it is longer than
    32,000 bytes. `cut` says that a stream was longer than `output_max`.
    """

    exit_code: int | None = None
    signal: int | None = None
    stopped: Stopped | None = None
    stdout: bytes | None = None
    stderr: bytes | None = None
    stdout_blob: Cid | None = None
    stderr_blob: Cid | None = None
    cut: bool = False
    duration_ns: int = 0
