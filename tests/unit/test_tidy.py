"""The house stays in order: lengths, names, words, positions, imports of pages and examples.

Each rule is a function over the files that returns what breaks it, as `place: what`. What is tolerated is
listed with its reason, and the lists only shrink: an entry that nothing needs any more fails, too.
"""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "cellule"
FILE_LINES_MAX = 320
LISTED_LINES_MAX = 500
FUNCTION_LINES_MAX = 45
GENERATED = "sync.py"  # as long as the classes it stands for


# Longer for now, each with the reason; the limit holds for these, too.
LONG_FILES = {
    "app/app.py": "one class, whose decorators are the public API",
    "host/ingress/handles.py": "one class, whose methods are the public API",
    "host/node.py": "the worlds in memory: loading, leaving, ownership",
    "host/read/reader.py": "every read of one world",
    "host/read/record_view.py": "how each kind of record is shown",
    "host/run/world_runner.py": "the two tasks of a world share its state",
    "host/service.py": "one class, whose methods are the public API",
    "kernel/decide/steps.py": "one step, with every way it can end",
    "kernel/journal/records.py": "one class for each kind of record",
    "kernel/index/live.py": "reads and writes of one tree",
    "kernel/index/write.py": "one noun",
    "kernel/manifest/compare.py": "one comparison for each section",
    "kernel/manifest/fields.py": "one reader of document fields",
    "kernel/prove/replay.py": "one function for each record kind",
    "modules/python/scan.py": "what a function can reach: one walk over its code",
    "kernel/state/ledger.py": "the only functions that change a world",
    "store/engines/sqlite/writer.py": "one thread with its connection",
    "store/keys.py": "one function for each key",
    "testing/loop.py": "one class: an event loop",
    "testing/world.py": "one class, whose methods are the public API",
}
LONG_FUNCTIONS = {
    "kernel/fast/batch.py:_lay": "the inner loop of ingest: a call costs more than a line",
    "kernel/fast/ring_step.py:ring_step": "the inner loop of log states",
    "kernel/fast/steps.py:run": "the inner loop of ingest",
    "modules/python/program.py:_new_way": "makes the two functions below it",
    "modules/python/program.py:step": "the inner loop of every step",
    "values/schema/fault.py:expected": "one case for each type",
}

# The last word of a file's name is a noun.
NOUNS = {"binding", "listing", "need", "ring", "spacing"}
VERB_FILES = {
    "host/read/effects/opened.py": "effects that are open",
    "host/run/outgoing.py": "rows that go out",
    "kernel/index/ordered.py": "the ordered index",
}
EMPTY_NAMES = {"utils", "util", "helpers", "common", "misc", "core", "shared", "base"}

# Names that were given up, and what is said instead.
OLD_NAMES = {
    "Teller": "RecordRenderer",
    "Told": "RecordView, or the thing itself",
    "Brought": "LocalReceipts",
    "Desk": "BeatContext",
    "Lane": "FastBatch",
    "Track": "SchemaRoute",
    "Walk": "FastSteps",
    "Laid": "BatchResult",
    "is_straight": "is_complete",
    "Hosted": "WorldRunner",
    "Types": "WorldCodecs",
    "Patience": "StoreRetry",
    "insist": "StoreRetry.call",
    "BuiltOutside": "EffectsConfig",
    "Plain": "BareEvent",
    "with_decoded": "encode_with_fields",
    "Way": "StepFunction",
    "way_of": "step_function",
    "Proven": "CheckedRequest",
    "Asked": "EffectRequest",
    "Applicant": "Requester",
    "Ruling": "Verdict",
    "teller_of": "renderer_of",
}
OLD_PARAMETERS = {
    "most": "limit",
    "more": "extras",
    "how": "delivery",
    "told": "outcome",
    "desk": "context",
    "held": "stored",
}

# Sentences that nobody would say to a colleague; each has a plain one.
OLD_SENTENCES = (
    "rules in CEL what needs",
    "restore never runs your code again, and",
    "Secrets are references; they are in no journal",
    "A step calls nobody",
    "More than this nobody can do",
    "it lets pass when it fires",
    "A time is missed when the one after",
)

# Where records, rows and entries have names; in `kernel/index/` an entry is a key and a value.
RECORD_NAMES = {"record", "entry", "row"}
WITHOUT_POSITIONS = (
    "app/",
    "cli/",
    "host/",
    "kernel/decide/",
    "kernel/fast/",
    "kernel/prove/",
    "kernel/state/",
)
POSITIONS_LEFT = {
    "host/inbox/local_receipts.py": "a key and its receipt",
    "host/inbox/sends.py": "steps as tuples, for speed",
    "host/run/deliveries.py": "steps as tuples, for speed",
    "kernel/fast/batch.py": "rows of the batch, for speed",
    "kernel/state/lists.py": "a list's own rows",
}

# Who knows one engine finds the same thing at the same place in another.
ENGINE_FILES = {"__init__", "connection", "engine", "errors", "layout", "reader", "watch", "writer"}

# What a world consists of: `kernel/state/` changes these, through methods that keep the invariants.
STATE_NAMES = {"ledger", "slot", "book", "dedupe", "heartbeat", "branch"}
STATE = "kernel/state/"

MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:work|root|home|Users)/\w|/tmp/(?:wt|brief|base)\b")

# What pages and examples may import; `effects` is for those who write adapters.
PUBLIC = re.compile(r"cellule(\.errors|\.testing(\.\w+)?|\.effects(\.\w+)*)?")


@cache
def text_of(path: Path) -> str:
    return path.read_text()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path))


def sources() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def place_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def short_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def functions_of(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [
        node for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def check(found: dict[str, str], tolerated: dict[str, str]) -> None:
    """Nothing breaks the rule but what is listed, and all of that still does."""
    assert {place: what for place, what in found.items() if place not in tolerated} == {}
    assert sorted(set(tolerated) - set(found)) == [], "these keep the rule now: take them off the list"


def test_files_are_short():
    lengths = {short_of(path): len(text_of(path).splitlines()) for path in sources()}
    del lengths[GENERATED]
    check({place: f"{count} lines" for place, count in lengths.items() if count > FILE_LINES_MAX}, LONG_FILES)
    assert {place: count for place, count in lengths.items() if count > LISTED_LINES_MAX} == {}


def test_functions_are_short():
    found = {}
    for path in sources():
        for node in functions_of(path):
            count = (node.end_lineno or node.lineno) - node.lineno + 1
            if count > FUNCTION_LINES_MAX:
                found[f"{short_of(path)}:{node.name}"] = f"{count} lines"
    check(found, LONG_FUNCTIONS)


def test_every_module_says_what_lives_in_it():
    silent = [
        place_of(path) for path in sources() if text_of(path).strip() and not ast.get_docstring(tree_of(path))
    ]
    assert silent == []


def test_files_are_named_by_nouns():
    found = {}
    for path in sources():
        last = path.stem.rpartition("_")[2]
        if re.fullmatch(r"\w+(ing|ed)", last) and last not in NOUNS:
            found[short_of(path)] = f"{last!r} is no noun"
    check(found, VERB_FILES)


def test_no_file_is_named_for_having_no_name():
    everywhere = [*sources(), *(ROOT / "tests").rglob("*.py"), *(ROOT / "bench").rglob("*.py")]
    found = [place_of(path) for path in everywhere if {path.stem, path.parent.name} & EMPTY_NAMES]
    assert found == []


def test_old_names_are_gone():
    found = {}
    for path in sources():
        classes = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)]
        for node in [*functions_of(path), *classes]:
            if node.name in OLD_NAMES:
                found[f"{short_of(path)}:{node.name}"] = f"say {OLD_NAMES[node.name]}"
    assert found == {}


def test_parameters_have_the_readers_words():
    found = {}
    for path in sources():
        for node in functions_of(path):
            every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            names = {argument.arg for argument in every}
            if "least" in names:
                names -= {"most"}  # bounds come in pairs
            for name in names & set(OLD_PARAMETERS):
                found[f"{short_of(path)}:{node.name}({name})"] = f"say {OLD_PARAMETERS[name]}"
    check(found, {})


def test_sentences_that_nobody_would_say_are_gone():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md"), *sources()]
    found = []
    for path in pages:
        text = " ".join(text_of(path).split())
        found += [f"{place_of(path)}: {sentence}" for sentence in OLD_SENTENCES if sentence in text]
    assert found == []


def test_only_the_journal_knows_positions_in_records():
    found: dict[str, str] = {}
    for path in sources():
        if not short_of(path).startswith(WITHOUT_POSITIONS):
            continue
        places = [
            f"line {node.lineno}"
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and node.value.id in RECORD_NAMES
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, int)
        ]
        if places:
            found[short_of(path)] = ", ".join(places)
    check(found, POSITIONS_LEFT)


def test_engines_share_their_file_names():
    engines = [path.parent for path in (SOURCE / "store" / "engines").glob("*/engine.py")]
    assert len(engines) == 2
    for engine in engines:
        assert {path.stem for path in engine.glob("*.py")} >= ENGINE_FILES, engine.name


def names_in(node: ast.AST) -> set[str]:
    """The names along an access: `context.ledger.book.parked` has four."""
    names = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    names |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return {name.removeprefix("_").removeprefix("open_") for name in names}


def targets_of(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            return targets
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return [target]
    return []


def test_only_state_changes_a_world():
    found: dict[str, str] = {}
    for path in sources():
        if short_of(path).startswith(STATE) or not short_of(path).startswith(("kernel/", "host/run/")):
            continue
        for node in ast.walk(tree_of(path)):
            for target in targets_of(node):
                if isinstance(target, ast.Attribute | ast.Subscript) and names_in(target.value) & STATE_NAMES:
                    found[f"{short_of(path)}:{node.lineno}"] = ast.unparse(target)
    assert found == {}


def test_no_file_names_a_place_on_somebodys_machine():
    kinds = {".py", ".md", ".toml", ".txt", ".json", ".jsonl", ".svg"}
    folders = ("src", "docs", "examples", "bench", "tools", "requirements")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in kinds]
    found = [place_of(path) for path in [*paths, *ROOT.glob("*.md")] if MACHINE_PATHS.search(text_of(path))]
    assert found == []


def imports_of(source: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return {name for name in found if name.partition(".")[0] == "cellule"}


def test_examples_import_public_names_only():
    found = {
        f"{place_of(path)}: {name}"
        for path in (ROOT / "examples").rglob("*.py")
        for name in imports_of(text_of(path))
        if not PUBLIC.fullmatch(name)
    }
    assert found == set()


def test_pages_import_public_names_only():
    pages = [ROOT / "README.md", ROOT / "docs" / "start.md", *(ROOT / "docs" / "guides").glob("*.md")]
    imported = re.compile(r"^\s*(?:from|import) (cellule[\w.]*)", re.MULTILINE)
    blocks = re.compile(r"^```(?:python|py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    found = {
        f"{place_of(page)}: {name}"
        for page in pages
        for block in blocks.findall(text_of(page))
        for name in imported.findall(block)
        if not PUBLIC.fullmatch(name)
    }
    assert found == set()


def test_layers_leave_no_module_out():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [contract for contract in contracts if contract["type"] == "layers"]
    assert {"cellule", "cellule.host"} <= {name for each in layers for name in each.get("containers", [])}
    assert [each["name"] for each in layers if not each.get("exhaustive")] == []
