"""Every code the host raises has its section, and every section its code."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_every_code_has_a_section_and_every_section_a_code():
    sources = [*(ROOT / "src/cellule/host").rglob("*.py"), ROOT / "src/cellule/assembly.py"]
    used = {code for path in sources for code in re.findall(r'"(host\.[a-z_]+)"', path.read_text())}
    told = re.findall(r"^## (host\.[a-z_]+)$", (ROOT / "docs/errors/host.md").read_text(), re.MULTILINE)
    assert sorted(told) == sorted(used)
