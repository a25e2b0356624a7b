"""The command line (`cellule`, `python -m cellule`): an interrupt is exit 130, also while it is loaded."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit."""
    try:
        from cellule.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
