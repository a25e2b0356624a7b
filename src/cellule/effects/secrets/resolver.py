"""`Secrets`: from references to values, at the moment an adapter needs them.

Sources are asked in order and at every attempt, so a rotated secret is used by the next try. Every value is
made known to the redactor before it is handed out. A resolved text is a `Revealed`: it works as the text it
is, and shows as `<secret name>` in the repr of whatever holds it.

Rejected: resolving the params before `perform`. Only the adapter knows which fields are its own and which
hold what a stranger wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, Protocol, Self

import msgspec

from cellule.effects.limits import SECRET_BYTES_MAX, SECRET_CHARS_MIN, SECRET_NAME_CHARS_MAX
from cellule.effects.outcomes import Failed, Retry
from cellule.effects.secrets.redactor import Redactor
from cellule.effects.secrets.reference import MARK, TEMPLATE, Secret, check_secret_name
from cellule.errors import CelluleError, Rejected, Unavailable


class SecretSource(Protocol):
    """A place that keeps secrets."""

    async def get(self, name: str, /) -> str | None:
        """Return the value, or None when there is none here; `Rejected` when it may not be used."""

    def how_to_add(self, name: str, /) -> str:
        """Say how a person adds the secret here."""


class Revealed(str):
    """A text with secrets in it; its repr has none."""

    __slots__ = ("shown",)
    shown: str

    def __new__(cls, text: str, shown: str) -> Self:
        """Keep `shown` for the repr."""
        new = super().__new__(cls, text)
        new.shown = shown
        return new

    def __repr__(self) -> str:
        return f"<{self.shown}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a resolved secret is not pickled; pickle the reference")


class Secrets:
    """Resolves references from its sources, the first that knows a name."""

    def __init__(self, *sources: SecretSource, redactor: Redactor | None = None) -> None:
        self.sources = sources
        self.redactor = redactor or Redactor()

    def apart(self) -> Secrets:
        """The same sources, with a redactor that knows only what is resolved through this one from now on.

        For long bodies: what came back is searched for what was sent, not for all secrets of the node.
        """
        return Secrets(*self.sources, redactor=Redactor(above=self.redactor))

    async def get(self, name: str) -> Revealed:
        """Return the value of a secret; `Failed` naming only the name when there is none."""
        try:
            value = await self._find(check_secret_name(name))
        except Unavailable as error:
            raise Retry(self.redactor.scrub_text(str(error))) from None
        except CelluleError as error:
            raise Failed(error.code, self.redactor.scrub_text(str(error))) from None
        self.redactor.learn(name, value)
        return Revealed(value, f"secret {name}")

    async def resolve(self, value: Any) -> Any:
        """Return `value` with its references resolved, in texts, records, maps and lists.

        A `Secret` and `{"$secret": name}` become the text itself, `${secret:name}` inside a text is replaced.
        A value without references is returned as it is.
        """
        match value:
            case Secret():
                return await self.get(value.name)
            case str():
                return await self._text(value)
            case Mapping():
                # Only alone: a map of the author's may have such a key among others.
                if len(value) == 1 and MARK in value:
                    return await self.get(value[MARK])
                return {key: await self.resolve(item) for key, item in value.items()}
            case list():
                return [await self.resolve(item) for item in value]
            case tuple() if type(value) is tuple:
                return tuple([await self.resolve(item) for item in value])
            case msgspec.Struct():
                return await self._struct(value)
            case _:
                return value

    async def _text(self, text: str) -> str:
        found = list(TEMPLATE.finditer(text))
        if not found:
            return text
        pieces, at = [], 0
        for each in found:
            pieces += [text[at : each.start()], await self.get(each[1])]
            at = each.end()
        return Revealed("".join([*pieces, text[at:]]), text)

    async def _struct(self, value: msgspec.Struct) -> msgspec.Struct:
        changed = {}
        for name in value.__struct_fields__:
            before = getattr(value, name)
            after = await self.resolve(before)
            if after is not before:
                changed[name] = after
        return msgspec.structs.replace(value, **changed) if changed else value

    async def _find(self, name: str) -> str:
        for source in self.sources:
            value = await source.get(name)
            if value is not None:
                return check_secret_value(name, value)
        ways = " ".join(source.how_to_add(name) for source in self.sources)
        raise Rejected(
            "effects.secret_unknown", "there is no secret {name}",
            name=name, hint=ways or "This node has no source of secrets: give it one.",
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<secrets of {len(self.sources)} sources>"


def check_secret_value(name: str, value: str) -> str:
    """Return `value` if it can be kept secret; `Rejected`, without the value, otherwise."""
    problem = ""
    if len(value) < SECRET_CHARS_MIN:
        problem = f"it has fewer than {SECRET_CHARS_MIN} characters and could not be scrubbed from texts"
    elif len(value.encode("utf-8", "surrogatepass")) > SECRET_BYTES_MAX:
        problem = f"it has more than {SECRET_BYTES_MAX} bytes"
    elif "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        problem = "it is no proper text"
    if not problem:
        return value
    raise Rejected(
        "effects.secret_unfit", "the value of the secret {name} cannot be used: {problem}",
        name=name[:SECRET_NAME_CHARS_MAX], problem=problem, hint="Store another value.",
    )  # fmt: skip
