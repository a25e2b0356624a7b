"""The guide and the error pages say what is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cellule.kernel.program import StepFault
from cellule.values import decode

ROOT = Path(__file__).parents[4]
GUIDE = (ROOT / "docs/guides/reducers.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


def test_the_guide_s_reducer_runs_as_printed(import_app, load_program, context):
    source = blocks("python")[0]
    module = import_app({"shop/__init__.py": "", "shop/orders.py": source}, "shop.orders")
    loaded = load_program(module.order, key="order_id")
    output = loaded.step("Placed", order_id="o1", cents=5, context=context)
    assert decode(output.state) == {"cents": 5, "placed_ns": context.now_ns}
    with pytest.raises(StepFault) as caught:
        loaded.step("Paid", order_id="o1", context=context)
    assert caught.value.text == blocks("text")[0].strip()


def test_every_code_has_a_section():
    page = (ROOT / "docs/errors/modules.md").read_text()
    used = set()
    for file in (ROOT / "src/cellule/modules").rglob("*.py"):
        text = file.read_text()
        used |= set(re.findall(r'"(modules\.[a-z_]+)"', text))
        used |= {f"modules.{name}" for name in re.findall(r'_refuse\(\s*function, "([a-z_]+)"', text)}
    sections = re.findall(r"^## (\S+)$", page, re.MULTILINE)
    assert sorted(sections) == sorted(used)
    assert len(sections) == len(set(sections))
