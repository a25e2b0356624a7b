"""What a deploy changes in a `testing.World`, checked as a node checks it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cellule.app import Built
from cellule.kernel.manifest.compare import ManifestChange, compare_manifests, is_spill


def change_to(
    builds: Sequence[Built], built: Built, empty: Collection[str], *, spills: bool
) -> tuple[ManifestChange, list[str]]:
    """The change from the newest of `builds`, and the modules whose maps become cells where it `spills`.

    `empty` are the modules without cells. Raises what makes the change incompatible.
    """
    old, new = builds[-1].manifest, built.manifest
    earlier = [each.manifest for each in reversed(builds[:-1])]
    spilled = [base for base in new.modules if spills and is_spill(old, new, base)]
    full = old.modules.keys() - empty
    change = compare_manifests(old, new, full, empty=empty, earlier=earlier, spilled=spilled)
    change.check_compatible("of the test")
    return change, spilled
