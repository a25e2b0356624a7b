"""Pictures of machines: what they say, what they escape, and which machines are too large for one."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import pytest

from cellule.errors import Rejected
from cellule.modules.fsm import limits
from cellule.modules.fsm.contract import Contract
from cellule.modules.fsm.picture import LABEL_LENGTH_MAX, mermaid
from cellule.modules.fsm.read import read_contract
from cellule.modules.fsm.svg import draw

LAMP = """start: buy
states:
  - {name: dark, exit: [{effect: shop.log}]}
  - {name: lit, entry: [{effect: power.on}], timeout: {after: 90s, trigger: dim}}
  - broken
transitions:
  - {from: dark, to: lit, trigger: switch}
  - {from: lit, to: lit, trigger: touch}
  - {from: lit, to: dark, trigger: switch}
  - {from: lit, to: dark, trigger: dim}
  - {from: "*", to: broken, trigger: fall, guard: event.height > 2 && event.on == '<stone>; "hard"'}
terminal_states: [broken]
"""


def contract(text: str = LAMP) -> Contract:
    return read_contract(text.encode(), "lamp.fsm.yaml")


def shapes(text: str, name: str) -> list[Any]:
    return [each for each in ET.fromstring(text).iter() if each.tag.endswith(f"}}{name}")]


def test_a_diagram_says_states_transitions_effects_and_time():
    assert mermaid(contract(), "lit").splitlines() == [
        "stateDiagram-v2",
        '    state "dark" as s0', "    s0 : exit#58; shop.log",
        '    state "lit" as s1', "    s1 : entry#58; power.on",
        '    state "broken" as s2',
        "    [*] --> s0 : buy",
        "    s0 --> s1 : switch",
        "    s1 --> s1 : touch",
        "    s1 --> s0 : switch",
        "    s1 --> s0 : dim after 1m30s",
        "    s0 --> s2 : fall [event.height #62; 2 && event.on == '#60;stone#62;#59; #34;hard#34;']",
        "    s1 --> s2 : fall [event.height #62; 2 && event.on == '#60;stone#62;#59; #34;hard#34;']",
        "    s2 --> [*]",
        "    classDef current fill:#ddf4ff,stroke:#0969da,color:#1f2328",
        "    class s1 current",
    ]  # fmt: skip


def test_a_picture_shortens_long_texts_and_keeps_them_as_titles():
    made = draw(contract())
    assert "<stone>" not in made
    cut = [each for each in shapes(made, "text") if (each.text or "").startswith("fall [")]
    assert len(cut) == 2
    assert all(len(each.text) == LABEL_LENGTH_MAX and each.text.endswith("…") for each in cut)
    assert all("<stone>" in "".join(each.itertext()) for each in cut)


def test_the_state_of_a_cell_ends_and_time_look_different():
    made = draw(contract(), "lit")
    kinds = [each.get("class") for each in shapes(made, "rect")]
    assert (kinds.count("box"), kinds.count("box current"), kinds.count("inner")) == (2, 1, 1)
    assert [each.get("class") for each in shapes(made, "path")].count(
        "arrow timed"
    ) == 0  # switch leads there, too
    timed = draw(contract(LAMP.replace("  - {from: lit, to: dark, trigger: switch}\n", "")))
    assert [each.get("class") for each in shapes(timed, "path")].count("arrow timed") == 1
    assert made == draw(contract(), "lit")


def test_a_machine_that_is_too_large_for_a_picture_is_refused_and_still_a_diagram():
    names = [f"s{at}" for at in range(limits.DRAWN_STATES_MAX + 1)]
    rows = "".join(
        f"  - {{from: {names[at]}, to: {names[at + 1]}, trigger: go}}\n" for at in range(len(names) - 1)
    )
    large = contract(f"states: [{', '.join(names)}]\ntransitions:\n{rows}terminal_states: [{names[-1]}]\n")
    with pytest.raises(Rejected) as caught:
        draw(large)
    assert caught.value.code == "fsm.picture"
    assert "Mermaid" in caught.value.hint
    assert mermaid(large).count(" --> ") == limits.DRAWN_STATES_MAX + 2
