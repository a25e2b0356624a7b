"""Ctrl-C anywhere is exit 130 without a trace: while the command line is loaded, too."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

INTERRUPTED_AT = textwrap.dedent(
    """
    import sys

    import cellule.__main__

    wanted = sys.argv.pop(1)

    class Interrupt:
        def find_spec(self, name, path=None, target=None):
            if name == wanted:
                raise KeyboardInterrupt

    sys.meta_path.insert(0, Interrupt())
    cellule.__main__.main()
    """
)


@pytest.mark.parametrize("module", ["cellule.cli.main", "typer", "cellule.cli.world", "cellule.assembly"])
@pytest.mark.parametrize("shape", [[], ["--json"]], ids=["people", "programs"])
def test_an_interrupt_while_a_module_is_imported_is_exit_130(tmp_path, module, shape):
    words = [sys.executable, "-c", INTERRUPTED_AT, module, "--data", str(tmp_path), *shape, "world", "list"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (ended.returncode, "Traceback" in ended.stderr) == (130, False), ended.stderr
