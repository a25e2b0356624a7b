"""Reading the entries of a document: aliases, unknown fields, types. Wrong ones become problems.

Every entry remembers the path under which its author wrote it, alias and all, so that a problem points into
the author's document and not into the normal form. A null is the same as nothing there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar, overload

from cellule.errors import Rejected
from cellule.kernel.manifest.limits import ENTRIES_MAX, TEXT_CHARS_MAX
from cellule.kernel.manifest.problems import Problems, below, near
from cellule.values.names import ModuleName, Name
from cellule.values.schema.fault import shown

Choice = TypeVar("Choice", bound=str)
Named = tuple[str, str, object]
"""An entry of a section: its name, its path, its body."""

KIND_FIELD: Final = "$kind"


class Fields:
    """The entries of one map, by the names of the normal form."""

    def __init__(
        self, problems: Problems, path: str, document: object, names: Sequence[str],
        aliases: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.problems = problems
        self.path = path
        self._entries: dict[str, tuple[str, object]] = {}
        self._names = names
        self._aliases = aliases or {}
        self.is_map = isinstance(document, Mapping)
        if not isinstance(document, Mapping):
            problems.add(path, "type", f"a map is needed here, not {shown(document)}")
            return
        for key, value in document.items():
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
            other = self._entries[name][0]
            self.problems.add(place, "duplicate", f"the same is already given as {other}")
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

    def text(self, name: str) -> str | None:
        """The text of a field, of 1 to `TEXT_CHARS_MAX` characters."""
        value = self.get(name)
        return None if value is None else text_of(self.problems, self.at(name), value)

    def name(self, name: str) -> str | None:
        """The versioned name in a field; `{"ref": name}` is taken too."""
        value = self.get(name)
        if isinstance(value, Mapping) and list(value) == ["ref"]:
            value = value["ref"]
        return None if value is None else name_of(self.problems, self.at(name), value)

    def flag(self, name: str) -> bool:
        """The boolean of a field; false where there is none."""
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            self.problems.add(self.at(name), "type", f"true or false is needed here, not {shown(value)}")
        return value is True

    def choice(self, name: str, choices: Sequence[Choice], default: Choice) -> Choice:
        """One of a few texts."""
        value = self.get(name)
        if value is None:
            return default
        for choice in choices:
            if value == choice:
                return choice
        self.problems.add(self.at(name), "choice", f"{shown(value)} is none of {', '.join(choices)}")
        return default

    def positive(self, name: str) -> int | None:
        """A number of nanoseconds above zero."""
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1 << 63:
            self.problems.add(
                self.at(name),
                "number",
                f"a positive integer of nanoseconds is needed here, not {shown(value)}",
            )
            return None
        return value

    @overload
    def whole(self, name: str, least: int, most: int, default: int) -> int: ...

    @overload
    def whole(self, name: str, least: int, most: int, default: None) -> int | None: ...

    def whole(self, name: str, least: int, most: int, default: int | None) -> int | None:
        """A whole number within bounds."""
        value = self.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            text = f"an integer of {least} to {most} is needed here, not {shown(value)}"
            self.problems.add(self.at(name), "number", text)
            return default
        return value

    def items(self, name: str) -> list[tuple[str, object]]:
        """The items of a list with their paths; empty where there is none."""
        value = self.get(name)
        if value is None:
            return []
        return items_of(self.problems, self.at(name), value)

    def required(self, name: str) -> None:
        """Note a problem unless the field is there; what is no map at all is reported already."""
        if self.is_map and self.get(name) is None:
            self.problems.add(self.path, "missing_field", f"the field {name!r} is missing")


def text_of(problems: Problems, path: str, value: object) -> str | None:
    """`value` as text, or a problem."""
    if not isinstance(value, str):
        problems.add(path, "type", f"a text is needed here, not {shown(value)}")
        return None
    if not 0 < len(value) <= TEXT_CHARS_MAX:
        problems.add(path, "length", f"the text has {len(value)} characters; 1 to {TEXT_CHARS_MAX} are taken")
        return None
    return value


def name_of(problems: Problems, path: str, value: object) -> str | None:
    """`value` as a versioned name, or a problem."""
    return _parsed(problems, path, value, Name.parse)


def module_name_of(problems: Problems, path: str, value: object) -> str | None:
    """`value` as a name with or without version, or a problem."""
    bare = isinstance(value, str) and "@" not in value
    return _parsed(problems, path, value, ModuleName.parse if bare else Name.parse)


def _parsed(problems: Problems, path: str, value: object, parse: Callable[[str], object]) -> str | None:
    if not isinstance(value, str):
        problems.add(path, "type", f"a name is needed here, not {shown(value)}")
        return None
    try:
        return str(parse(value))
    except Rejected as error:
        problems.add(path, "name", str(error))
        return None


def items_of(problems: Problems, path: str, value: object) -> list[tuple[str, object]]:
    """The items of the list `value`, or a problem."""
    if not isinstance(value, list | tuple):
        problems.add(path, "type", f"a list is needed here, not {shown(value)}")
        return []
    if len(value) > ENTRIES_MAX:
        problems.add(path, "length", f"there are {len(value)} entries; at most {ENTRIES_MAX} are taken")
        return []
    return [(below(path, position), item) for position, item in enumerate(value)]


def named_of(problems: Problems, path: str, value: object, label: str = "name") -> list[Named]:
    """The entries of a section: a map by name, or a list of maps that each hold their `label`."""
    if value is None:
        return []
    if isinstance(value, Mapping):
        if len(value) > ENTRIES_MAX:
            problems.add(path, "length", f"there are {len(value)} entries; at most {ENTRIES_MAX} are taken")
            return []
        return [
            (key, below(path, key), _unnamed(body, label, key)) for key, body in _keys(problems, path, value)
        ]
    entries: list[Named] = []
    places: dict[str, str] = {}
    for place, item in items_of(problems, path, value):
        if not isinstance(item, Mapping) or not isinstance(item.get(label), str):
            problems.add(place, "type", f"a map with its {label!r} is needed here, not {shown(item)}")
            continue
        name = item[label]
        if name in places:
            problems.add(below(place, label), "duplicate", f"{name} stands at {places[name]} already")
            continue
        places[name] = place
        entries.append((name, place, _unnamed(item, label, name)))
    return entries


def _keys(problems: Problems, path: str, section: Mapping[object, object]) -> Iterable[tuple[str, object]]:
    for key, body in section.items():
        if isinstance(key, str):
            yield key, body
        else:
            problems.add(path, "type", f"a name is needed here, not {shown(key)}")


def _unnamed(body: object, label: str, name: str) -> object:
    """The body of an entry without the name that stands in front of it already."""
    if isinstance(body, Mapping) and body.get(label) == name:
        return {key: part for key, part in body.items() if key != label}
    return body
