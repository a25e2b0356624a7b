"""What somebody may have meant by a name that there is not."""

from __future__ import annotations

from difflib import get_close_matches

from cellule.host.limits import SUGGESTIONS_MAX


def suggestion(name: str, known: list[str]) -> str:
    """What the caller may have meant; of very many names only the first are compared."""
    if not known:
        return "There is none yet."
    close = get_close_matches(name, known[:SUGGESTIONS_MAX], n=3, cutoff=0.5)
    if close:
        return f"Did you mean {', '.join(close)}?"
    return f"There are: {', '.join(sorted(known)[:8])}{', ...' if len(known) > 8 else ''}."
