"""Names of modules, schemas, events, states: `namespace/Name@version`, or `namespace/Name` without version.

    com.acme.billing/Invoice@3
    namespace: parts of letters, digits, `_`, `-`, joined by dots    local name: begins with a letter or `_`

Names are compared as written: case counts. Only ASCII, so that one name has one spelling and is safe in keys,
paths and addresses. A cell is found by the name without version, because an upgrade must find the same cell.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from cellule.errors import Rejected
from cellule.values.limits import LOCAL_CHARS_MAX, NAMESPACE_CHARS_MAX, VERSION_MAX

RESERVED_NAMESPACE: Final = "sys"
_is_namespace = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9_][A-Za-z0-9_-]*)*", re.ASCII).fullmatch
_is_local = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII).fullmatch
_is_version = re.compile(r"[1-9][0-9]*", re.ASCII).fullmatch
_SHOWN_CHARS: Final = 80


@dataclass(frozen=True, slots=True, order=True)
class ModuleName:
    """A name without version: what a cell belongs to, through all upgrades."""

    namespace: str
    local: str

    def __post_init__(self) -> None:
        _check_parts(self.namespace, self.local, f"{self.namespace}/{self.local}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `namespace/Name`."""
        namespace, local = _split(text, "namespace/Name")
        if "@" in local:
            raise Rejected(
                "names.version", "{name!r} has a version where none is taken", name=text[:_SHOWN_CHARS],
                hint="Leave out the @ and what follows.",
            )  # fmt: skip
        return cls(namespace, local)

    @property
    def is_reserved(self) -> bool:
        """Tell whether the name belongs to Cellule."""
        return self.namespace == RESERVED_NAMESPACE or self.namespace.startswith(RESERVED_NAMESPACE + ".")

    def at(self, version: int) -> Name:
        """Return this name with a version."""
        return Name(self.namespace, self.local, version)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.local}"


@dataclass(frozen=True, slots=True, order=True)
class Name:
    """A versioned name. Versions count from 1 and sort as numbers."""

    namespace: str
    local: str
    version: int

    def __post_init__(self) -> None:
        _check_parts(self.namespace, self.local, str(self))
        if type(self.version) is not int or not 1 <= self.version <= VERSION_MAX:
            raise _version_fault(str(self), str(self.version))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `namespace/Name@version`.

        >>> Name.parse("com.acme/Order@2").base
        ModuleName(namespace='com.acme', local='Order')
        """
        namespace, rest = _split(text, "namespace/Name@version")
        local, mark, version = rest.partition("@")
        if not mark:
            raise Rejected(
                "names.version", "{name!r} has no version", name=text[:_SHOWN_CHARS],
                hint="Write namespace/Name@version, such as com.acme/Order@1.",
            )  # fmt: skip
        if not _is_version(version) or len(version) > len(str(VERSION_MAX)):
            raise _version_fault(text, version)
        return cls(namespace, local, int(version))

    @property
    def base(self) -> ModuleName:
        """The name without version."""
        return ModuleName(self.namespace, self.local)

    @property
    def is_reserved(self) -> bool:
        """Tell whether the name belongs to Cellule."""
        return self.base.is_reserved

    def __str__(self) -> str:
        return f"{self.namespace}/{self.local}@{self.version}"


def check_not_reserved(name: Name | ModuleName) -> None:
    """Refuse a name in the namespace `sys`, which only Cellule defines."""
    if name.is_reserved:
        raise Rejected(
            "names.reserved", "{name} is in the reserved namespace `sys`", name=str(name),
            hint="Choose a namespace of your own, such as com.acme.",
        )  # fmt: skip


def _split(text: str, form: str) -> tuple[str, str]:
    if not isinstance(text, str):
        raise Rejected("names.malformed", "a name is text, not {kind}", kind=type(text).__name__)
    namespace, slash, rest = text.partition("/")
    if not slash:
        raise Rejected(
            "names.malformed", "{name!r} has no namespace", name=text[:_SHOWN_CHARS], hint=f"Write {form}."
        )
    return namespace, rest


def _check_parts(namespace: str, local: str, name: str) -> None:
    for part, text, most, more, fits in (
        ("namespace", namespace, NAMESPACE_CHARS_MAX, "in parts joined by dots", _is_namespace),
        ("local name", local, LOCAL_CHARS_MAX, "beginning with a letter or _", _is_local),
    ):
        if not isinstance(text, str):
            raise Rejected(
                "names.malformed", "the {part} of a name is {text!r}, which is no text", part=part, text=text,
                hint=f"It takes letters, digits, _ and -, {more}.",
            )  # fmt: skip
        if len(text) > most:
            raise Rejected(
                "names.too_long", "the {part} of {name!r} has {size} characters; at most {most}",
                part=part, name=name[:_SHOWN_CHARS], size=len(text), most=most,
            )  # fmt: skip
        if not fits(text):
            raise Rejected(
                "names.malformed", "the {part} {text!r} of {name!r} is not well formed",
                part=part, text=text[:_SHOWN_CHARS], name=name[:_SHOWN_CHARS],
                hint=f"It takes letters, digits, _ and -, {more}.",
            )  # fmt: skip


def _version_fault(name: str, version: str) -> Rejected:
    return Rejected(
        "names.version", "the version {version!r} of {name!r} is no number from 1 to {most}",
        version=version[:_SHOWN_CHARS], name=name[:_SHOWN_CHARS], most=VERSION_MAX,
        hint="Versions are written without sign and leading zeros.",
    )  # fmt: skip
