"""`python -m cellule`: the command line."""

from __future__ import annotations

from cellule.cli.main import main

main()
