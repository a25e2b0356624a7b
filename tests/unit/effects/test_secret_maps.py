"""A map that is a reference as a whole, where single texts are wanted, is refused before anything is done."""

from __future__ import annotations

import pytest

from cellule.effects.http.params import HttpRequest
from cellule.effects.http.request import outgoing
from cellule.effects.llm.adapter import LlmAdapter
from cellule.effects.llm.types import LlmGenerate
from cellule.effects.outcomes import Failed
from cellule.effects.process.adapter import ProcessAdapter
from cellule.effects.process.types import ProcessRun

REFERENCE = {"$secret": "bank"}
TOOLS = {"private": True, "hosts": None, "methods": None, "allow": {"command": ["*"]}}


async def test_the_variables_of_a_command(make_attempt):
    """The text of the secret was taken for the map, and a traceback came back in an ok receipt."""
    with pytest.raises(Failed, match="maps names of variables to texts") as caught:
        await ProcessAdapter().perform(ProcessRun(command="true", env=REFERENCE), make_attempt(grant=TOOLS))
    assert caught.value.code == "effects.command_text"


async def test_the_fields_of_a_form(make_attempt):
    asked = HttpRequest(url="http://127.0.0.1/", method="POST", form=REFERENCE, body_secrets=True)
    with pytest.raises(Failed, match="form maps names to texts"):
        await outgoing(asked, make_attempt(grant=TOOLS))


async def test_the_headers_of_a_model(make_attempt):
    asked = LlmGenerate(base_url="http://127.0.0.1/", model="m", messages=[], headers=REFERENCE)
    with pytest.raises(Failed, match="headers maps names to texts"):
        await LlmAdapter().perform(asked, make_attempt(grant=TOOLS))
