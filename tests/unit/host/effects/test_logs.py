"""What a node logs: one line for each thing an operator wants, with places, and never a secret."""

from __future__ import annotations

import io
import logging
import subprocess
import sys

import pytest

from cellule.errors import Rejected
from tests.unit.host.effects.conftest import SECRET


@pytest.fixture
def heard(caplog):
    caplog.set_level(logging.INFO, "cellule")
    return lambda: [record.getMessage() for record in caplog.records if record.name.startswith("cellule")]


async def test_stores_ownership_and_worlds_are_told(opened, heard):
    async with opened():
        assert any(line.startswith("this node owns ") for line in heard())
        assert any(line.startswith("opened ") for line in heard())
        assert "world main is loaded" in heard()
    assert "world main left memory" in heard()
    assert any(line.startswith("closing ") for line in heard())
    assert any(line.endswith(" any more") for line in heard())


async def test_a_failed_attempt_is_told_with_its_place_and_what_follows(opened, heard):
    """An adapter's bug left `RuntimeError: ...` in a receipt, no line and no place anywhere."""
    async with opened() as here:
        settled = await here.settled(await here.place("exit1"))
        assert "pay.py:" in settled.receipt.text
    failed = [line for line in heard() if "SystemExit" in line]
    assert len(failed) == 3
    assert failed[0].startswith("attempt 1 of pay.charge for pay/order/")
    assert "tried again in " in failed[0]
    assert "given up, and kept as a dead letter" in failed[2]
    assert "Traceback (most recent call last)" in failed[0]
    assert "sys.exit(" in failed[0]


async def test_no_secret_reaches_a_handler_that_came_later(opened):
    """Only the handlers that existed when the node was opened were scrubbed."""
    async with opened() as here:
        out = io.StringIO()
        late = logging.StreamHandler(out)
        logging.getLogger("cellule").addHandler(late)
        try:
            await here.settled(await here.place("tired1"))
            logging.getLogger("cellule.other").error("it is %s", SECRET)
        finally:
            logging.getLogger("cellule").removeHandler(late)
    assert "did not work" in out.getvalue()
    assert "it is <secret bank>" in out.getvalue()
    assert SECRET not in out.getvalue()


async def test_records_are_made_as_before_once_no_node_performs(opened):
    before = logging.getLogRecordFactory()
    async with opened():
        assert logging.getLogRecordFactory() is not before
    assert logging.getLogRecordFactory() is before


def test_a_program_that_does_not_listen_hears_nothing():
    script = "import cellule, logging; cellule.open; logging.getLogger('cellule.host').error('boom')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


async def test_a_new_folder_is_its_users_alone(opened, tmp_path):
    async with opened():
        folder = tmp_path / "data"
        assert folder.stat().st_mode & 0o777 == 0o700
        modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir() if path.is_file()}
        assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}


async def test_a_long_text_of_a_person_is_refused_in_our_words(opened):
    """The error spoke of a value and a key of the store."""
    async with opened() as here:
        view = await here.place("hold1")
        with pytest.raises(Rejected, match="`text` is 20000 characters long"):
            await here.world.inject_receipt(view.id, "failed", who="ann", why="x", text="y" * 20_000)
        assert (await here.world.effect(view.height)).receipt is None
