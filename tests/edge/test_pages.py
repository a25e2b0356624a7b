"""The pages hold together: links and anchors lead somewhere, every page is found, what they name exists."""

from __future__ import annotations

import re
from collections import Counter
from itertools import product
from pathlib import Path

import pytest
import typer

from cellule.cli.main import app as command_line

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/*.md")])
FIRST = ROOT / "README.md"
WITH_COMMANDS = [page for page in PAGES if page.parent.name != "formats"]  # those draw bytes

_CODE = re.compile(r"^( *)```.*?^\1```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_SECTION = re.compile(r"^## ([a-z]+\.[a-z0-9_]+)$", re.MULTILINE)
_FILE = re.compile(r"`((?:docs|src|tests|examples|bench|tools|requirements)/[\w./-]+)`")
_SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^cellule ((?:[a-z|-]+ ?)*)", re.MULTILINE)
_TARGET = re.compile(r"(?:^|`)make ([a-z]+)\b", re.MULTILINE)


def prose_of(page: Path) -> str:
    """A page without code, in which nothing is a link or a heading."""
    return _CODE.sub("", page.read_text())


def links_of(page: Path) -> list[str]:
    found = _LINK.findall(prose_of(page))
    return [link for link in found if not link.startswith(("http://", "https://", "mailto:"))]


def anchors_of(page: Path) -> set[str]:
    """The anchors that readers of Markdown make of headings."""
    text = re.sub(r"^( *)```.*?^\1```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    found: set[str] = set()
    for heading in _HEADING.findall(text):
        anchor = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        number = 0
        while (anchor if not number else f"{anchor}-{number}") in found:
            number += 1
        found.add(anchor if not number else f"{anchor}-{number}")
    return found


def commands_of(page: Path) -> list[list[str]]:
    """The words of every command of ours; `world pause|resume` are two."""
    text = page.read_text()
    lines = [*_SHELL.findall(text), *re.findall(r"`([^`\n]+)`", text)]
    found = []
    for words in (line.split() for each in lines for line in _COMMAND.findall(each)):
        alternatives = [word.split("|") for word in words if not word.startswith("-")]
        found += [list(each) for each in product(*alternatives)]
    return found


def is_command(words: list[str]) -> bool:
    """Whether a command begins like this; what follows a whole command are its arguments."""
    group = typer.main.get_command(command_line)
    for word in words:
        commands = getattr(group, "commands", None)
        if commands is None:
            return True
        if word not in commands:
            return False
        group = commands[word]
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page):
    broken = []
    for link in links_of(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_found_from_the_first_one():
    found, left = {FIRST}, [FIRST]
    while left:
        page = left.pop()
        for link in links_of(page):
            target = (page.parent / link.partition("#")[0]).resolve()
            target = target / "README.md" if target.is_dir() else target
            if target in PAGES and target not in found:
                found.add(target)
                left.append(target)
    lost = [str(page.relative_to(ROOT)) for page in PAGES if page not in found]
    assert lost == []


def test_a_code_has_one_section_on_the_page_of_its_area():
    pages = (ROOT / "docs" / "errors").glob("*.md")
    found = [(code, page.stem) for page in pages for code in _SECTION.findall(page.read_text())]
    assert [code for code, count in Counter(code for code, _ in found).items() if count > 1] == []
    assert [code for code, area in found if code.partition(".")[0] != area] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page):
    assert [name for name in _FILE.findall(page.read_text()) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_that_a_page_names_exist(page):
    assert [" ".join(words) for words in commands_of(page) if not is_command(words)] == []


def test_targets_that_pages_name_are_in_the_makefile():
    known = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {target for page in PAGES for target in _TARGET.findall(page.read_text())}
    assert named <= known
