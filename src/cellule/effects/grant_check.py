"""What a grant allows of one parameter, checked once more where the work is done.

The beat has checked every `allow` list already. Adapters whose parameter names a program or a place ask
again, and insist on a list: a grant without one allows nothing there. In a pattern `*` stands for any
characters.
"""

from __future__ import annotations

from cellule.effects.attempt import Attempt
from cellule.effects.outcomes import Failed
from cellule.kernel.decide.intents.gate import text_fits


def check_allowed(attempt: Attempt, path: str, value: str, *, separator: str = "") -> None:
    """`Failed` unless the attempt's grant lists a pattern for `path` that `value` fits.

    With a `separator`, a `*` stands for characters other than that one.
    """
    grant = attempt.grant or {}
    patterns = grant.get("allow", {}).get(path)
    if patterns is None:
        raise Failed(
            "effects.not_granted",
            f"The grant {grant.get('name', 'of this effect')} does not say which {path} it allows. "
            f'Add allow: {{"{path}": [...]}} to it.',
        )
    if not any(_fits(value, pattern, separator) for pattern in patterns):
        raise Failed(
            "effects.not_granted",
            f"The grant {grant.get('name')} does not allow the {path} {value!r}. "
            f"It allows: {', '.join(patterns) or 'none'}.",
        )


def _fits(value: str, pattern: str, separator: str) -> bool:
    # With as many separators as the pattern writes out, no `*` stands for one.
    return text_fits(value, pattern) and (not separator or value.count(separator) == pattern.count(separator))
