"""Where answers go: tables and text for people, JSON for programs, errors on standard error.

With `--json` standard output holds one JSON document, or one per line for streams, and nothing else;
errors are one JSON document on standard error. Progress is shown on a terminal only.

Names, keys and texts come from users, and a terminal obeys control characters: nothing here writes one.
People see a sign in its place, programs the escape of JSON; `_Console` keeps this for all that is printed.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from base64 import b64decode
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from cellule.cli.errors import error_json, message_of
from cellule.errors import CelluleError, Rejected
from cellule.values.json_view import ByteText

WIDTH_PIPED = 160  # columns where there is no terminal to ask

# What a terminal would obey: C0 but tab and newline, DEL, C1, and what turns the direction of text.
_SIGNS = {code: 0x2400 + code for code in range(0x20) if code not in (0x09, 0x0A)}
_SIGNS |= {0x7F: 0x2421} | dict.fromkeys(
    (*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD
)
_ESCAPES = {code: f"\\u{code:04x}" for code in _SIGNS if code >= 0x7F}  # JSON itself escapes the others

Step = Callable[[int, int], None]


class Output:
    """The two streams of one command."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.out = _console(stderr=False)
        self.err = _console(stderr=True)

    def document(self, data: Any, *shown: RenderableType) -> None:
        """The answer of a command: `data` for programs, `shown` for people."""
        if self.as_json:
            _write(json_text(data, indent=2))
            return
        for each in shown:
            self.out.print(_text(each) if isinstance(each, str) else each)

    def line(self, data: Any, shown: RenderableType) -> None:
        """One answer of a stream, written at once."""
        if self.as_json:
            _write(json_text(data))
        else:
            self.out.print(shown, soft_wrap=True)
            self.out.file.flush()

    def note(self, text: str) -> None:
        """Something for people that is no answer; on standard error."""
        if not self.as_json:
            self.err.print(_text(text, style="dim"))

    def error(self, error: CelluleError) -> None:
        """What went wrong; on standard error."""
        if self.as_json:
            sys.stderr.write(_encodable(json_text(error_json(error)), sys.stderr) + "\n")
            return
        head = Text.assemble(("error: ", "bold red"), harmless(message_of(error)))
        self.err.print(head, soft_wrap=True)
        for note in getattr(error, "__notes__", ()):
            self.err.print(Text.assemble(("note:  ", "bold yellow"), harmless(note)), soft_wrap=True)
        if error.hint:
            self.err.print(Text.assemble(("hint:  ", "bold yellow"), harmless(error.hint)), soft_wrap=True)
        self.err.print(Text.assemble(("code:  ", "dim"), (error.code, "dim")), soft_wrap=True)

    @contextmanager
    def progress(self, what: str) -> Iterator[Step]:
        """A bar on a terminal; call what it gives with (done, total)."""
        if self.as_json or not self.err.is_terminal:
            yield lambda _done, _total: None
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self.err, transient=True) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)


def table(columns: Iterable[str], rows: Iterable[Iterable[object]], title: str | None = None) -> Table:
    """A plain table; cells are shown as they are, never as markup."""
    made = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*(each if isinstance(each, Text) else _text(str(each)) for each in row))
    return made


def facts(pairs: Mapping[str, object]) -> Table:
    """Names and values, one pair a line."""
    made = Table(box=None, show_header=False, pad_edge=False)
    made.add_column(style="bold")
    made.add_column(overflow="fold")
    for name, value in pairs.items():
        made.add_row(_text(name), value if isinstance(value, Text) else _text(str(value)))
    return made


def write_file(path: Path, text: str) -> None:
    """Write the file that a command was asked for; `Rejected` where it cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Rejected(
            "cli.output", "{file} cannot be written: {why}", file=str(path), why=error.strerror
        ) from error


def harmless(text: str) -> str:
    """A text as it may go to a terminal: a sign stands where a control character was."""
    return text.translate(_SIGNS)


def compact(value: Any) -> str:
    """JSON data on one line, for people."""
    return json.dumps(readable(value), ensure_ascii=False)


def readable(value: Any) -> Any:
    """JSON data with bytes that are text shown as that text: for people, who do not read base64."""
    match value:
        case ByteText():
            text = _text_of(value.raw)
            return value if text is None else text
        case {"/": {"bytes": str(encoded)}} if len(value) == 1:
            text = _text_of(b64decode(encoded + "=" * (-len(encoded) % 4)))
            return value if text is None else text
        case dict():
            return {name: readable(each) for name, each in value.items()}
        case list():
            return [readable(each) for each in value]
        case _:
            return value


def _text_of(raw: bytes) -> str | None:
    """The text that bytes are; None where they are not, or hold what a terminal would not show."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    return text if all(each.isprintable() or each in "\n\r\t" for each in text) else None


def counted(count: int, noun: str) -> str:
    """`1 cell`, `2 cells`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class _Console(Console):
    """Writes no control character of a text, whoever made it; colours are no part of texts."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else harmless(text), style, control)


def _text(text: str, style: str = "") -> Text:
    return Text(harmless(text), style=style)


def json_text(data: Any, indent: int | None = None) -> str:
    """JSON for programs; control characters are escapes, in case it goes to a terminal."""
    return json.dumps(data, ensure_ascii=False, indent=indent).translate(_ESCAPES)


def _write(text: str) -> None:
    sys.stdout.write(_encodable(text, sys.stdout) + "\n")
    sys.stdout.flush()


def _encodable(text: str, stream: TextIO) -> str:
    """JSON text as a stream can hold it: with escapes where its encoding has no such characters."""
    try:
        text.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        return "".join(each if each.isascii() else json.dumps(each)[1:-1] for each in text)
    return text


def prepare_streams() -> None:
    """Make output and error take whatever is told, in any encoding; closed streams lead nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - kept
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="strict" if mode == "r" else "backslashreplace")


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else WIDTH_PIPED
    return _Console(stderr=stderr, width=width, highlight=False, emoji=False)


async def while_read(work: Coroutine[Any, Any, None]) -> None:
    """Do work that only writes; it is cancelled when nobody reads standard output any more."""
    loop, task, pipe = asyncio.get_running_loop(), asyncio.current_task(), _pipe()
    assert task is not None

    def gone() -> None:
        assert pipe is not None
        loop.remove_reader(pipe)
        task.cancel()

    if pipe is not None:
        loop.add_reader(pipe, gone)  # the writing end of a pipe wakes readers only when the other end closes
    try:
        await work
    finally:
        if pipe is not None:
            loop.remove_reader(pipe)


def _pipe() -> int | None:
    """Standard output, if it is a pipe."""
    try:
        descriptor = sys.stdout.fileno()
        return descriptor if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else None
    except (OSError, ValueError):
        return None


def close_broken_pipe() -> None:
    """Nobody reads standard output any more: let Python's last flush go nowhere."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
