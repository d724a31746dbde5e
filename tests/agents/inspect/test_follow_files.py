"""Tests how mngr follows files that agents and hosts write."""

from __future__ import annotations

import re
from pathlib import Path

from mngr.agents.context import Context
from mngr.agents.inspect.follow_files import MAX_LINE_BYTES, Tail, TailGroup
from mngr.testkit.contract.mngr_program import BackgroundProgram
from tests.conftest import MngrProgram


def test_a_line_without_an_end_is_cut_and_the_next_line_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"first\n" + b"x" * (MAX_LINE_BYTES + 1) + b"x" * 100_000_000 + b"\nlast\n")
    notes: list[str] = []
    tails = TailGroup(notes.append)
    tails.add(Tail(Context(str(tmp_path / "home")).local_host, [str(path)]))
    lines: list[bytes] = []
    while b"last" not in lines:
        lines += tails.wait(10)
    tails.close()
    assert [line[:5] for line in lines] == [b"first", b"xxxxx", b"last"]
    assert len(lines[1]) == MAX_LINE_BYTES + 1
    assert notes == ["a line of more than 16 MB is not shown"]


def test_a_line_of_the_largest_size_is_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"x" * MAX_LINE_BYTES + b"\nlast\n")
    notes: list[str] = []
    tails = TailGroup(notes.append)
    tails.add(Tail(Context(str(tmp_path / "home")).local_host, [str(path)]))
    lines: list[bytes] = []
    while b"last" not in lines:
        lines += tails.wait(10)
    tails.close()
    assert (len(lines[0]), notes) == (MAX_LINE_BYTES, [])


def test_follow_needs_little_memory_for_an_endless_line_and_says_what_is_missing(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player")
    path = mngr.get_agent_dir("foo") / "transcript.jsonl"
    with path.open("ab") as file:
        file.truncate(600_000_000)
        file.seek(0, 2)
        file.write(b'\n{"role":"user","text":"last"}\n')
    with BackgroundProgram(mngr, "transcript", "foo", "--follow", "--format", "{text}") as program:
        assert program.read_line() == "last"
        status = Path(f"/proc/{program.process.pid}/status").read_text()
        assert "a line of more than 16 MB is not shown" in program.read_stderr()
    assert int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) < 200_000
