"""The determinism guard at build time: reads the code a reducer reaches, and names what cannot be repeated.

It starts at the entry and follows names through the app's files, so an adapter that talks to the network may
stand beside a reducer in one file, and be called by it: that makes a request and runs nothing. A line may be
let through, with a reason:

    started = time.monotonic()  # cellule: allow clock - only logged, never stored

It finds mistakes, not malice: code that hides what it does is not found. Python modules are trusted.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable
from typing import Final

from cellule.errors import Rejected
from cellule.modules.python.bundle import Bundle
from cellule.modules.python.reach import reach
from cellule.modules.python.rules import INSTEAD, Finding
from cellule.modules.python.scan import Scan
from cellule.modules.python.scopes import set_fields
from cellule.modules.python.symbols import App, Symbols

_ALLOW: Final = re.compile(r"#\s*cellule:\s*allow\s+([a-z]+(?:\s*,\s*[a-z]+)*)\s*[-:(]*\s*(.*)")
SHOWN_MAX: Final = 20


def check_deterministic(stored: Bundle) -> None:
    """Refuse a bundle whose entry reaches code that could not be repeated; lists every place."""
    findings = find_hazards(stored)
    if not findings:
        return
    lines = [str(finding) for finding in findings[:SHOWN_MAX]]
    if len(findings) > SHOWN_MAX:
        lines.append(f"and {len(findings) - SHOWN_MAX} more")
    raise Rejected(
        "modules.nondeterministic", "{entry} could not be repeated:\n{places}",
        entry=stored.plan.entry, places="\n".join(lines), findings=findings,
        hint="A line may pass with `# cellule: allow <rule> - <reason>`.",
    )  # fmt: skip


def find_hazards(stored: Bundle) -> list[Finding]:
    """Every place the entry reaches that breaks a rule and is not allowed to."""
    symbols = Symbols(stored.sources)
    module, _, name = stored.plan.entry.partition(":")
    reached = reach(symbols, App(module, name))
    findings: set[Finding] = set()
    classes = [node for _, node in reached if isinstance(node, ast.ClassDef)]
    fields = set_fields(classes)
    for file, node in reached:
        scan = Scan(symbols, file, fields)
        scan.walk(node)
        findings.update(scan.findings)
    allowed = {file.path: allowances(file.text) for file in symbols.files.values()}
    kept = {(each.path, each.line, each.rule): each for each in sorted(findings, reverse=True)}
    return [each for _, each in sorted(kept.items()) if not _is_allowed(each, allowed[each.path])]


def allowances(text: str) -> dict[int, set[str]]:
    """By line, the rules that a comment lets pass there; a comment of its own line counts for the next."""
    found: dict[int, set[str]] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        match = _ALLOW.match(token.string) if token.type == tokenize.COMMENT else None
        if match is None or not match[2].strip(" )"):
            continue
        alone = not token.line[: token.start[1]].strip()
        rules = {rule.strip() for rule in match[1].split(",")}
        found.setdefault(token.start[0] + alone, set()).update(rules & INSTEAD.keys())
    return found


def _is_allowed(finding: Finding, allowed: dict[int, set[str]]) -> bool:
    lines: Iterable[int] = range(finding.line, finding.line_end + 1)
    return any(finding.rule in allowed.get(line, ()) for line in lines)
