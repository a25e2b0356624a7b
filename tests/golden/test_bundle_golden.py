"""Frozen bytes of bundles and of the code entry in manifests; a change here is a new format version.

See docs/formats/bundle.md.
"""

from __future__ import annotations

from cellule.kernel.program import Context as KernelContext
from cellule.modules.python.bundle import make_bundle
from cellule.modules.python.code import PythonCode
from cellule.modules.python.context import Context
from cellule.values import encode

SOURCES = {
    "shop/__init__.py": b"",
    "shop/orders.py": b"from shop import rates\n\ndef order(state, event):\n    return rates.RATE\n",
    "shop/rates.py": b"RATE = 7\n",
}

ROOT = "bafyreiewzo5pl2aff5p6qynugnimrpq6vrcrxvwullaldbuxwdywhx6u5u"
ROOT_BYTES = (
    "a565656e7472797173686f702e6f72646572733a6f726465726566696c6573a36d73686f702f72617465732e7079d82a5825"
    "0001551220a5bb1b6009977e5574907921506a718e87d254f41be27a8364c1265509aa5ee16e73686f702f6f72646572732e"
    "7079d82a5825000155122083ce2a532031764cd6d1af8ad61494fc14056c6c8ad114a0be244855a623b5747073686f702f5f"
    "5f696e69745f5f2e7079d82a58250001551220e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b8"
    "5566666f726d61740066707974686f6e64332e3131687265717569726573a168707964616e74696366322e31312e31"
)
CODE_ID = "bafyreia5yra5moxdpxrozcaucpfeh4illvkstm3midekfvnin7igdwih7i"
FILES = {
    "shop/rates.py": "bafkreiffxmnwacmxpzkxjedzefigu4moq7jfj5a34j5igzgbezkqtks64e",
    "shop/orders.py": "bafkreiedzyvfgibrozgnnunprllbjfh4cqcwy3ek2ekkbprejbk2mi5voq",
    "shop/__init__.py": "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku",
}
CODE_BYTES = (
    "a6646b696e6466707974686f6e65656e7472797173686f702e6f72646572733a6f72646572656e616d6573a17373686f702e"
    "6d6f64656c733a4f72646572563170636f6d2e61636d652f4f7264657240316662756e646c65d82a5825000171122096cbba"
    "f5e8052f5fe861b43350c8be1eac451bd6d45ac0b18697b0f163dfd4ed696e616d65737061636568636f6d2e61636d656e73"
    "6368656d615f76657273696f6e02"
)
CHANCE = 0xAE9FC62FCA525448CE2149D4A58CCB00
IDS = ["018bcfe5-6800-7000-8915-dcdfb21f6bc4", "018bcfe5-6800-7001-ac68-1f85e7fd19ff"]


def frozen():
    return make_bundle("shop.orders:order", SOURCES, {"pydantic": "2.11.1"}, python="3.11")


def test_the_root_has_these_bytes():
    found = frozen()
    assert str(found.root) == ROOT
    assert found.blocks[found.root].hex() == ROOT_BYTES


def test_the_code_identity_leaves_the_entry_out():
    assert str(frozen().plan.code_id) == CODE_ID


def test_files_are_raw_blocks_of_their_source():
    found = frozen()
    assert {path: str(cid) for path, cid in found.plan.files.items()} == FILES


def test_the_code_of_a_manifest_has_these_bytes():
    code = PythonCode(
        "python",
        "shop.orders:order",
        "com.acme",
        2,
        {"shop.models:OrderV1": "com.acme/Order@1"},
        frozen().root,
    )
    assert encode(code.document()).hex() == CODE_BYTES


def test_chance_and_ids_of_a_step_are_these():
    kernel = KernelContext(bytes(16), "a/B@1", b"k", 1, 9, 1_700_000_000_000_000_000, bytes(range(16)), 0, 0)
    ctx = Context(kernel, bytes)
    assert ctx.random.getrandbits(128) == CHANCE
    assert [str(ctx.uuid()) for _ in range(2)] == IDS
