"""Upcasters: pure functions from a value of one schema to a value of the next, `def up(old: V1) -> V2`."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from cellule.errors import CelluleError
from cellule.kernel.manifest.model import Manifest, Upcaster
from cellule.kernel.program import CODE_UNAVAILABLE, StepFault
from cellule.modules.python.boundary import Boundary
from cellule.modules.python.failure import Places, exception_text
from cellule.modules.python.loader import is_missing
from cellule.modules.python.module_names import Naming
from cellule.modules.python.signature import UpcasterSignature, shown_function
from cellule.modules.python.watchdog import Watchdog


def upcast_function(
    signature: UpcasterSignature, manifest: Manifest, upcaster: Upcaster, naming: Naming, watchdog: Watchdog,
    places: Places,
) -> Callable[[bytes], bytes]:  # fmt: skip
    """The upcaster as the kernel calls it; what it returns raises nothing but `StepFault`."""
    read = naming.codec(signature.old, manifest.schemas, upcaster.old).decode_trusted
    write = naming.codec(signature.new, manifest.schemas, upcaster.new).encode
    function = signature.function

    boundary = Boundary("upcaster", watchdog, places)

    def described(error: BaseException) -> StepFault:
        what = f"upcaster {upcaster.old} -> {upcaster.new}: "
        if issubclass(type(error), CelluleError):
            return StepFault("modules.upcast_invalid", places.cleaned(f"{what}{error}"))
        is_gone = issubclass(type(error), ImportError) and is_missing(cast("ImportError", error), places)
        code = CODE_UNAVAILABLE if is_gone else "modules.upcast_failed"
        return StepFault(code, what + exception_text(error, places))

    def upcast(data: bytes) -> bytes:
        return boundary.call(lambda _: write(function(read(data))), described)

    upcast.__qualname__ = shown_function(function)
    return upcast
