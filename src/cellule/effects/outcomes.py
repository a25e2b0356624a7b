"""How an attempt ends without a value: `Retry` for another try, `Failed` for good, `Later` for others to end.

Any other exception of an adapter counts as `Retry` with its class as the reason. Both texts end up in a
receipt or a row, so they are scrubbed of secrets by whoever catches them.
"""

from __future__ import annotations


class Retry(Exception):
    """The attempt did not succeed, another may: `after_s` is the earliest, when the other side named one."""

    def __init__(self, reason: str, after_s: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.after_s = after_s


class Later(Exception):
    """The adapter has done its part; whoever has `attempt.token` completes the effect, within `timeout_s`.

    No attempt follows. If nobody completes it in time, it ends with the status `timeout` and a dead letter.
    """

    def __init__(self, timeout_s: float = 86_400.0) -> None:
        super().__init__(timeout_s)
        self.timeout_s = timeout_s


class Failed(Exception):
    """The effect failed for good: `code` is stable and dotted, `text` is for people."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"
