"""Reading the entries of a document: aliases, unknown fields, types. Wrong ones become problems.

A section is data: a table of its fields, each with a reader, and one loader for all (`read_entry`). Every
entry remembers the path under which its author wrote it, alias and all, so that a problem points into the
author's document and not into the normal form. A null is the same as nothing there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from cellule.errors import Rejected
from cellule.kernel.manifest.limits import ENTRIES_MAX, TEXT_CHARS_MAX
from cellule.kernel.manifest.model import EffectKind
from cellule.kernel.manifest.problems import Problems, below, near
from cellule.values.cbor import decode_trusted, encode
from cellule.values.link import Value
from cellule.values.names import ModuleName, Name
from cellule.values.schema.fault import shown
from cellule.values.schema.registry import Schemas

Named = tuple[str, str, object]
"""An entry of a section: its name, its path, its body."""

KIND_FIELD: Final = "$kind"


@dataclass(frozen=True, slots=True)
class Scope:
    """What the entries of a document may name, and where their problems go."""

    problems: Problems
    schemas: Schemas
    kinds: Mapping[str, EffectKind] | None = None  # None: any kind of effect may be listed

    def has_schema(self, path: str, name: str) -> bool:
        """Tell whether the manifest knows the schema; if not, note the problem."""
        if name not in self.schemas:
            self.problems.add(path, "schema_unknown", f"there is no schema {name}", near(name, self.schemas))
        return name in self.schemas


class Fields:
    """The entries of one map, by the names of the normal form."""

    def __init__(
        self, scope: Scope, path: str, document: object, names: Iterable[str],
        aliases: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.scope = scope
        self.problems = scope.problems
        self.path = path
        self._entries: dict[str, tuple[str, object]] = {}
        self._names = tuple(names)
        self._aliases = aliases or {}
        self.is_map = isinstance(document, Mapping)
        for key, value in map_of(self.problems, path, document).items():
            self._read(key, value)

    def _read(self, key: object, value: object) -> None:
        if not isinstance(key, str):
            self.problems.add(self.path, "type", f"a field's name is text, not {shown(key)}")
            return
        name = self._aliases.get(key, key)
        if name in self._names:
            self._add(name, below(self.path, key), value)
            return
        hint = near(key, (*self._names, *self._aliases))
        self.problems.add(below(self.path, key), "unknown_field", "there is no such field here", hint)

    def _add(self, name: str, place: str, value: object) -> None:
        if name in self._entries:
            self.note(name, "duplicate", f"the same is already given as {self._entries[name][0]}", at=place)
            return
        self._entries[name] = (place, value)

    def absorb(self, other: Fields) -> None:
        """Take the entries of another map as if they stood in this one."""
        for name, (place, value) in other._entries.items():
            self._add(name, place, value)

    def has(self, name: str) -> bool:
        """Tell whether the field was written, even as null."""
        return name in self._entries

    def at(self, name: str) -> str:
        """The path of a field, whether it was written or not."""
        return self._entries[name][0] if name in self._entries else below(self.path, name)

    def get(self, name: str) -> object:
        """The value of a field; None where there is none."""
        return self._entries[name][1] if name in self._entries else None

    def note(self, name: str, code: str, text: str, hint: str = "", *, at: str = "") -> None:
        """Note a problem of a field."""
        self.problems.add(at or self.at(name), code, text, hint)

    def items(self, name: str) -> list[tuple[str, object]]:
        """The items of a list with their paths; empty where there is none."""
        value = self.get(name)
        return [] if value is None else items_of(self.problems, self.at(name), value)

    def required(self, *names: str) -> None:
        """Note a problem for each field that is not there; what is no map at all is reported already."""
        for name in names:
            if self.is_map and self.get(name) is None:
                self.problems.add(self.path, "missing_field", f"the field {name!r} is missing")

    def without(self, name: str, problem: str) -> None:
        """Note a problem if the field is there, which does not go with another one."""
        if self.get(name) is not None:
            self.note(name, "unknown_field", problem, "Leave it out.")


# Readers of one field

Reader = Callable[[Fields, str], Any]
"""Reads a field of an entry: a value for the model, or what stands for one that is missing or wrong."""

Table = Mapping[str, Reader]
"""The fields of one kind of entry."""


def read_entry(
    table: Table, scope: Scope, path: str, body: object, *, required: Sequence[str] = ()
) -> tuple[Fields, dict[str, Any]]:
    """An entry by its table: the fields as written, and what their readers give."""
    fields = Fields(scope, path, body, table)
    fields.required(*required)
    return fields, {name: read(fields, name) for name, read in table.items()}


def raw(fields: Fields, name: str) -> object:
    """The value as it is written: for what needs the others to be read."""
    return fields.get(name)


def text(fields: Fields, name: str) -> str | None:
    """A text of 1 to `TEXT_CHARS_MAX` characters."""
    value = fields.get(name)
    return None if value is None else text_of(fields.problems, fields.at(name), value)


def name(fields: Fields, field: str) -> str | None:
    """A versioned name; `{"ref": name}` is taken too."""
    value = fields.get(field)
    if isinstance(value, Mapping) and list(value) == ["ref"]:
        value = value["ref"]
    return None if value is None else name_of(fields.problems, fields.at(field), value)


def schema(fields: Fields, field: str) -> str | None:
    """The name of a schema that the manifest knows."""
    found = name(fields, field)
    return found if found is not None and fields.scope.has_schema(fields.at(field), found) else None


def flag(fields: Fields, name: str) -> bool:
    """True or false; false where there is none."""
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        fields.note(name, "type", f"true or false is needed here, not {shown(value)}")
    return value is True


def choice(*choices: str, default: str = "") -> Reader:
    """One of a few texts; the first, if no other is the default."""

    def read(fields: Fields, name: str) -> str:
        value = fields.get(name)
        if value in choices:
            return str(value)
        if value is not None:
            fields.note(name, "choice", f"{shown(value)} is none of {', '.join(choices)}")
        return default or choices[0]

    return read


def positive(fields: Fields, name: str) -> int | None:
    """A number of nanoseconds above zero."""
    value = fields.get(name)
    if value is None or (type(value) is int and 0 < value < 1 << 63):
        return value
    fields.note(name, "number", f"a positive integer of nanoseconds is needed here, not {shown(value)}")
    return None


def whole(least: int, most: int, default: int | None = None) -> Reader:
    """A whole number within bounds."""

    def read(fields: Fields, name: str) -> int | None:
        value = fields.get(name)
        if type(value) is int and least <= value <= most:
            return value
        if value is not None:
            fields.note(name, "number", f"an integer of {least} to {most} is needed here, not {shown(value)}")
        return default

    return read


def entry(required: Sequence[str] = (), **table: Reader) -> Reader:
    """An entry inside an entry, as a map of what its readers give; None where there is none."""

    def read(fields: Fields, name: str) -> dict[str, Any] | None:
        if fields.get(name) is None:
            return None
        return read_entry(table, fields.scope, fields.at(name), fields.get(name), required=required)[1]

    return read


def distinct(check: Callable[[Fields, str, str], str | None]) -> Reader:
    """A list of different texts, sorted; `check` gives the normal form of one, or notes a problem of it."""

    def read(fields: Fields, name: str) -> tuple[str, ...]:
        found: list[str] = []
        for path, item in fields.items(name):
            given = text_of(fields.problems, path, item)
            normal = None if given is None else check(fields, path, given)
            if normal in found:
                fields.problems.add(path, "duplicate", f"{normal} is listed twice")
            elif normal is not None:
                found.append(normal)
        return tuple(sorted(found))

    return read


def opaque(fields: Fields, name: str) -> Any:
    """A part that the kernel keeps and does not read, as it will be read back from bytes; it is canonical."""
    try:
        return decode_trusted(encode(cast("Value", fields.get(name))))
    except Rejected as error:
        fields.note(name, "value", str(error))
        return None


def opaque_map(fields: Fields, name: str) -> Mapping[str, Any]:
    """The same for what must be a map; empty where there is none."""
    value = fields.get(name)
    if value is None or not isinstance(value, Mapping):
        return map_of(fields.problems, fields.at(name), {} if value is None else value)
    return opaque(fields, name) or {}


# Parts of a document


def text_of(problems: Problems, path: str, value: object) -> str | None:
    """`value` as text, or a problem."""
    if not isinstance(value, str):
        problems.add(path, "type", f"a text is needed here, not {shown(value)}")
        return None
    if not 0 < len(value) <= TEXT_CHARS_MAX:
        problems.add(path, "length", f"the text has {len(value)} characters; 1 to {TEXT_CHARS_MAX} are taken")
        return None
    return value


def name_of(problems: Problems, path: str, value: object, *, bare: bool = False) -> str | None:
    """`value` as a versioned name, or a problem; where `bare` says so, the version may be missing."""
    if not isinstance(value, str):
        problems.add(path, "type", f"a name is needed here, not {shown(value)}")
        return None
    try:
        return str(ModuleName.parse(value) if bare and "@" not in value else Name.parse(value))
    except Rejected as error:
        problems.add(path, "name", str(error))
        return None


def map_of(problems: Problems, path: str, value: object, what: str = "a map") -> Mapping[Any, Any]:
    """`value` as a map, or a problem and an empty one."""
    if isinstance(value, Mapping):
        return value
    problems.add(path, "type", f"{what} is needed here, not {shown(value)}")
    return {}


def items_of(problems: Problems, path: str, value: object) -> list[tuple[str, object]]:
    """The items of the list `value`, or a problem."""
    if not isinstance(value, list | tuple):
        problems.add(path, "type", f"a list is needed here, not {shown(value)}")
        return []
    if _is_too_long(problems, path, len(value)):
        return []
    return [(below(path, position), item) for position, item in enumerate(value)]


def named_of(problems: Problems, path: str, value: object, label: str = "name") -> list[Named]:
    """The entries of a section: a map by name, or a list of maps that each hold their `label`."""
    if value is None:
        return []
    if isinstance(value, Mapping):
        if _is_too_long(problems, path, len(value)):
            return []
        for key in value:
            if not isinstance(key, str):
                problems.add(path, "type", f"a name is needed here, not {shown(key)}")
        found = [(key, body) for key, body in value.items() if isinstance(key, str)]
        return [(key, below(path, key), _unnamed(body, label, key)) for key, body in found]
    entries: list[Named] = []
    places: dict[str, str] = {}
    for place, item in items_of(problems, path, value):
        if not isinstance(item, Mapping) or not isinstance(item.get(label), str):
            problems.add(place, "type", f"a map with its {label!r} is needed here, not {shown(item)}")
            continue
        known = places.setdefault(item[label], place)
        if known != place:
            problems.add(below(place, label), "duplicate", f"{item[label]} stands at {known} already")
            continue
        entries.append((item[label], place, _unnamed(item, label, item[label])))
    return entries


def _is_too_long(problems: Problems, path: str, count: int) -> bool:
    if count > ENTRIES_MAX:
        problems.add(path, "length", f"there are {count} entries; at most {ENTRIES_MAX} are taken")
    return count > ENTRIES_MAX


def _unnamed(body: object, label: str, name: str) -> object:
    """The body of an entry without the name that stands in front of it already."""
    if isinstance(body, Mapping) and body.get(label) == name:
        return {key: part for key, part in body.items() if key != label}
    return body
