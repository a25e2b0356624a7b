"""An entry of the registry: for which signals an enzyme runs, before and after whom, and what it may do.

Registering is not unique: the same entry twice is two entries, each with a number of its own. An entry names
the module of its code; a hundred thousand may share one.

    {name, module, query, match?, before?, after?, flags?, access?, retry_limit?, backoff?, depth?, signals?,
     from?}

That is its form in the manifest, in records and in the index of a snapshot; what is at its default is left
out. `from` says that a manifest registered it, and takes it away again. `flags` are kept for whoever reads
them, and mean nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from cellule.errors import Rejected
from cellule.kernel.heartbeat.query import Query, parse_query
from cellule.kernel.limits import (
    BACKOFF_BEATS_MAX,
    DEPTH_MAX,
    ENTRY_BYTES_MAX,
    RETRY_LIMIT_DEFAULT,
    RETRY_LIMIT_MAX,
)
from cellule.values.cbor import encode

NAME_BYTES_MAX: Final = 200
NAMES_MAX: Final = 1_000  # names in `before` or `after`
SIGNALS_DEFAULT: Final = 1_000  # signals that one run may emit, unless its entry says otherwise
SIGNALS_MAX: Final = 10_000
FROM_MANIFEST: Final = "manifest"
_SHOWN_MAX: Final = 200


class Entry(NamedTuple):
    """One entry. `depth`: how many beats a cascade may live; `signals`: how many one run may emit."""

    number: int
    name: str
    module: str
    query: Query
    before: Sequence[str] = ()
    after: Sequence[str] = ()
    access: str = "rw"
    retry_limit: int = RETRY_LIMIT_DEFAULT
    backoff: int = 0
    depth: int = DEPTH_MAX
    signals: int = SIGNALS_DEFAULT
    origin: str = ""
    flags: Sequence[str] = ()

    def as_data(self) -> dict[str, Any]:
        """The entry as records and indexes hold it, without its number."""
        data: dict[str, Any] = {"name": self.name, "module": self.module, "query": self.query.path}
        data["match"] = self.query.policy
        data |= {"before": list(self.before), "after": list(self.after), "flags": list(self.flags)}
        data["from"] = self.origin
        for field in ("access", "retry_limit", "backoff", "depth", "signals"):
            data[field] = getattr(self, field)
        return {field: value for field, value in data.items() if value != _DEFAULTS.get(field)}


_DEFAULTS: Final[dict[str, Any]] = {
    "match": "exact", "before": [], "after": [], "flags": [], "access": "rw",
    "retry_limit": RETRY_LIMIT_DEFAULT, "backoff": 0, "depth": DEPTH_MAX, "signals": SIGNALS_DEFAULT,
    "from": "",
}  # fmt: skip
_NEEDED: Final = ("name", "module", "query")


def parse_entry(number: int, given: object) -> Entry:
    """The entry that a map describes; refused, naming the field, where it describes none."""
    if not isinstance(given, Mapping):
        _wrong("entry", given, "it is no map")
    for field in given:
        if field not in _DEFAULTS and field not in _NEEDED:
            _wrong(str(field), given[field], "an entry has no such field")
    for field in _NEEDED:
        if field not in given:
            _wrong(field, None, "it is missing")
    found = {field: given.get(field, default) for field, default in _DEFAULTS.items()}
    names = {field: tuple(_names(field, found[field])) for field in ("before", "after", "flags")}
    return Entry(
        number, name_of(given["name"]), _text("module", given["module"]),
        parse_query(given["query"], found["match"]), names["before"], names["after"],
        _one_of("access", found["access"], "ro", "rw"),
        _whole("retry_limit", found["retry_limit"], 0, RETRY_LIMIT_MAX),
        _whole("backoff", found["backoff"], 0, BACKOFF_BEATS_MAX),
        _whole("depth", found["depth"], 1, DEPTH_MAX), _whole("signals", found["signals"], 0, SIGNALS_MAX),
        _one_of("from", found["from"], "", FROM_MANIFEST), names["flags"],
    )  # fmt: skip


def check_size(entry: Entry) -> None:
    """Refuse an entry that is new and too long to stand among others."""
    size = len(encode(entry.as_data()))
    if size > ENTRY_BYTES_MAX:
        _wrong("entry", entry.name, f"it has {size} bytes; at most {ENTRY_BYTES_MAX}")


def name_of(given: object, field: str = "name") -> str:
    """The name of an enzyme; refused where it is none."""
    text = _text(field, given)
    if "\0" in text or len(text.encode()) > NAME_BYTES_MAX:
        _wrong(field, given, f"a name has no zero, and at most {NAME_BYTES_MAX} bytes")
    return text


def _names(field: str, given: object) -> list[str]:
    if not isinstance(given, list | tuple) or len(given) > NAMES_MAX:
        _wrong(field, given, f"it is no list of at most {NAMES_MAX} names")
    return [name_of(each, field) for each in given]


def _text(field: str, given: object) -> str:
    if not isinstance(given, str) or not given:
        _wrong(field, given, "it is no text")
    try:
        given.encode()
    except UnicodeEncodeError:
        _wrong(field, given, "it is no UTF-8")
    return given


def _whole(field: str, given: object, least: int, most: int) -> int:
    if type(given) is not int or not least <= given <= most:
        _wrong(field, given, f"it is no whole number from {least} to {most}")
    return given


def _one_of(field: str, given: object, *known: str) -> str:
    if given not in known:
        _wrong(field, given, f"it is none of: {', '.join(filter(None, known))}")
    return str(given)


def _wrong(field: str, given: object, why: str) -> NoReturn:
    raise Rejected(
        "heartbeat.enzyme", "{field} of an enzyme is {given}: {why}",
        field=field, given=repr(given)[:_SHOWN_MAX], why=why,
    )  # fmt: skip
