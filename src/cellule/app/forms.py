"""`Forms`: the classes of an app's events and effects, the names they are stored under, and their codecs.

Codecs are made when first used, each once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellule.app.declarations import DeclaredEvent
from cellule.kernel.manifest.system import receipt_event
from cellule.modules.python import EffectForm
from cellule.modules.python.module_names import Naming
from cellule.modules.python.system import SYSTEM_NAMES, receipt_of
from cellule.values.schema.codec import Codec, codec_for
from cellule.values.schema.registry import Schemas


class Forms:
    """The classes of an app with their codecs; `receipts` are the types of receipts by schema."""

    def __init__(
        self, naming: Naming, events: Mapping[type, DeclaredEvent], schemas: Schemas,
        effects: Mapping[str, EffectForm],
    ) -> None:  # fmt: skip
        self.naming = naming
        self.events = events
        self.schemas = schemas
        self.effects = effects
        self.receipts = {receipt_event(kind): receipt_of(form.receipt) for kind, form in effects.items()}
        self.names: dict[str, type] = {each.name: python for python, each in events.items()}
        self.names.update({name: python for python, name in SYSTEM_NAMES.items()})
        self._codecs: dict[Any, Codec[Any]] = {}

    def codec(self, python: Any, name: str | None = None) -> Codec[Any]:
        """The codec of a type; a receipt's type goes by as many names as there are kinds that bring it."""
        found = self._codecs.get((python, name))
        if found is None:
            found = self._codecs[python, name] = codec_for(self.naming.derived(python, name))
        return found
