"""`Secret`: a name in the place of a value, all that a cell, an event or an intent ever holds.

    typed field        record {secret: "stripe"}
    inside plain data  {"$secret": "stripe"}
    inside a text      "Bearer ${secret:stripe}"

Which of them an adapter resolves is the adapter's business. Names are lower case, so that they are the same
on every file system and in the environment.
"""

from __future__ import annotations

import re

import msgspec

from cellule.effects.limits import SECRET_NAME_CHARS_MAX
from cellule.errors import Rejected

MARK = "$secret"
TEMPLATE = re.compile(r"\$\{secret:([^${}]*)\}")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Secret(msgspec.Struct, frozen=True, rename={"name": "secret"}):
    """A reference to a secret; made by `secret(name)`."""

    name: str

    def __str__(self) -> str:
        return f"${{secret:{self.name}}}"


def secret(name: str) -> Secret:
    """Refer to the secret `name`: lower-case letters, digits and `_`, beginning with a letter.

    >>> secret("stripe")
    Secret(name='stripe')
    """
    check_secret_name(name)
    return Secret(name)


def check_secret_name(name: object) -> str:
    """Return `name` if it may name a secret; `Rejected` otherwise."""
    if isinstance(name, str) and len(name) <= SECRET_NAME_CHARS_MAX and _NAME.fullmatch(name):
        return name
    raise Rejected(
        "effects.secret_name", "{name} cannot name a secret",
        name=repr(name)[:SECRET_NAME_CHARS_MAX],
        hint=f"Use 1 to {SECRET_NAME_CHARS_MAX} characters: a to z, 0 to 9 and _, a letter first.",
    )  # fmt: skip
