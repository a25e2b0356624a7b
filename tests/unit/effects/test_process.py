"""Commands: what runs, what they are told, and how their ends are reported."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cellule.effects.adapter import Adapter
from cellule.effects.outcomes import Failed
from cellule.effects.process.adapter import ProcessAdapter, check_spelling
from cellule.effects.process.types import INLINE_BYTES, ProcessEnded, ProcessRun
from cellule.errors import Rejected
from cellule.values.schema import codec_for, derive

ANY = {"name": "tools", "allow": {"command": ["*", "/*/*", "/*/*/*", sys.executable]}}


@pytest.fixture
def run(make_attempt):
    """Run a command, with params as given."""

    async def perform(command, *args, grant=ANY, secrets=None, timeout_s=60.0, **others):
        attempt = make_attempt(grant=grant, secrets=secrets, timeout_s=timeout_s)
        return await ProcessAdapter().perform(ProcessRun(command=command, args=list(args), **others), attempt)

    return perform


def test_it_is_an_adapter_that_needs_a_grant():
    assert isinstance(ProcessAdapter(), Adapter)
    assert ProcessAdapter().limits.needs_grant


@pytest.mark.parametrize("record", [ProcessRun(command="date"), ProcessEnded(exit_code=0, stdout=b"\x00")])
def test_params_and_receipts_survive_the_journal(record):
    codec = codec_for(derive(type(record), namespace="process"))
    assert codec.decode(codec.encode(record)) == record


def test_a_limit_out_of_bounds_does_not_fit_the_schema():
    codec = codec_for(derive(ProcessRun, namespace="process"))
    with pytest.raises(Rejected, match="memory_max"):
        codec.encode(ProcessRun(command="date", memory_max=1))


async def test_output_and_exit_code_are_the_receipt(run):
    ended = await run("sh", "-c", "echo out; echo err >&2; exit 3")
    assert (ended.exit_code, ended.signal, ended.stopped) == (3, None, None)
    assert (ended.stdout, ended.stderr, ended.cut) == (b"out\n", b"err\n", False)
    assert ended.duration_ns > 0


async def test_a_command_that_dies_of_a_signal_says_so(run):
    ended = await run("sh", "-c", "kill -TERM $$")
    assert (ended.exit_code, ended.signal) == (None, 15)


async def test_arguments_reach_the_command_as_they_are(run):
    ended = await run("printf", "%s|", "a b", "$HOME", "*", ";", "'", "ü")
    assert ended.stdout == "a b|$HOME|*|;|'|ü|".encode()


async def test_the_environment_is_what_was_given_and_nothing_else(run):
    assert (await run("env")).stdout == b""
    assert (await run("env", env={"A": "1"})).stdout == b"A=1\n"


async def test_input_reaches_the_command(run):
    data = os.urandom(200_000)
    ended = await run("cat", stdin=data, output_max=200_000)
    assert ended.stdout is None
    assert ended.stdout_blob is not None


async def test_a_command_that_reads_no_input_is_not_waited_for(run):
    assert (await run("true", stdin=bytes(500_000))).exit_code == 0


async def test_the_folder_is_empty_private_and_gone_afterwards(run):
    ended = await run("sh", "-c", "pwd; ls -A; touch made; stat -c %a made .")
    folder, *rest = ended.stdout.decode().split()
    assert rest == ["600", "700"]
    assert folder not in {str(path) for path in Path(folder).parent.iterdir()}


async def test_long_output_goes_to_the_store(run, blobs):
    ended = await run("head", "-c", str(INLINE_BYTES + 1), "/dev/zero")
    assert ended.stdout is None
    assert await blobs.get(ended.stdout_blob) == bytes(INLINE_BYTES + 1)
    assert not ended.cut


async def test_open_files_of_the_node_are_not_handed_down(run):
    reader, writer = os.pipe()
    os.set_inheritable(reader, True)
    try:
        ended = await run("ls", "/proc/self/fd")
    finally:
        os.close(reader)
        os.close(writer)
    assert len(ended.stdout.split()) == 4  # three streams, and the folder being listed


async def test_signals_are_as_a_shell_would_give_them(run):
    ended = await run("sh", "-c", "grep -E 'Sig(Ign|Blk)' /proc/self/status")
    masks = [int(line.split()[1], 16) for line in ended.stdout.splitlines()]
    library = 0b11 << 31  # signals 32 and 33 are the C library's own: nobody can set or reset them
    assert [mask & ~library for mask in masks] == [0, 0]


async def test_a_secret_in_the_environment_works_and_is_scrubbed_from_output(run):
    ended = await run(
        "sh", "-c", "echo ${#T} $T", env={"T": "${secret:token}"}, secrets={"token": "hunter22"}
    )
    assert ended.stdout == b"8 <secret token>\n"


async def test_a_secret_in_an_argument_is_refused(run):
    with pytest.raises(Failed, match="env") as refused:
        await run("echo", "${secret:token}", secrets={"token": "hunter22"})
    assert refused.value.code == "effects.secret_in_argument"


@pytest.mark.parametrize("given", [{"args": ["a\0b"]}, {"env": {"A=B": "1"}}, {"env": {"": "1"}}])
async def test_what_cannot_be_passed_on_is_refused(given, make_attempt):
    with pytest.raises(Failed) as refused:
        await ProcessAdapter().perform(ProcessRun(command="true", **given), make_attempt(grant=ANY))
    assert refused.value.code == "effects.command_text"


@pytest.mark.parametrize(
    "command",
    ["", ".", "..", "./sh", "bin/sh", "../bin/sh", "/bin/../bin/sh", "//bin/sh", "/bin//sh", "/bin/./sh",
     "/bin/", "sh\0"],
)  # fmt: skip
def test_a_path_with_tricks_is_refused(command):
    with pytest.raises(Failed) as refused:
        check_spelling(command)
    assert refused.value.code == "effects.command_spelling"


@pytest.mark.parametrize(
    ("command", "patterns"),
    [("sh", []), ("sh", ["date"]), ("sh", ["/bin/sh"]), ("/bin/sh", ["sh"]), ("/bin/sh", ["*"]),
     ("/usr/bin/env", ["/usr/*"]), ("sh", None)],
)  # fmt: skip
async def test_what_the_grant_does_not_list_is_refused(run, command, patterns):
    grant = {"name": "tools"} if patterns is None else {"name": "tools", "allow": {"command": patterns}}
    with pytest.raises(Failed, match="allow") as refused:
        await run(command, grant=grant)
    assert refused.value.code == "effects.not_granted"


async def test_without_any_grant_nothing_runs(run):
    with pytest.raises(Failed) as refused:
        await run("true", grant=None)
    assert refused.value.code == "effects.not_granted"


async def test_a_pattern_may_stand_for_a_folder_of_programs(run):
    assert (await run("/bin/true", grant={"name": "t", "allow": {"command": ["/bin/*"]}})).exit_code == 0


async def test_a_command_that_is_not_installed_is_named(run):
    with pytest.raises(Failed, match=r"no-such-program.*/usr/bin") as refused:
        await run("no-such-program")
    assert refused.value.code == "effects.command_missing"


async def test_a_file_that_is_no_program_says_why_it_did_not_start(run, tmp_path):
    script = tmp_path / "script"
    script.write_text("no interpreter is named here")
    script.chmod(0o755)
    with pytest.raises(Failed, match="Exec format error") as refused:
        await run(str(script), grant={"name": "t", "allow": {"command": [str(script)]}})
    assert refused.value.code == "effects.command_start"
