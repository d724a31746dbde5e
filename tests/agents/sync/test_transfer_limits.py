"""How much may come from an agent, here and on a host: what is more is refused, says so, and leaves nothing."""

from __future__ import annotations

import hashlib
import os
import random
import socket
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from tests.agents.sync.test_hostile import BRANCH, Agent, agent, objects, write
from tests.conftest import IS_FULL_SCALE, run_git
from tests.support.repos import commit_file, list_refs

pytestmark = pytest.mark.hosts

__all__ = ["agent"]

NOISE = random.Random(7)


def limit(**values: object) -> list[str]:
    """The words that set limits."""
    return [word for key, value in values.items() for word in ("-S", f"pull.{key}={value}")]


# ---- commits


def test_more_than_the_limit_is_stopped_whether_in_one_file_or_in_many(agent: Agent) -> None:
    for count, size in ((1, 3_000_000), (2000, 1500)):
        with agent.back():
            for number in range(count):
                (agent.work / f"f{number}").write_bytes(NOISE.randbytes(size))
            commit_file(agent.work)
            assert "more than 1 MB of new objects" in agent.refused(*limit(max_bytes=1_000_000))
    agent.mngr("pull", "foo")


def test_a_large_file_is_refused_by_name_however_small_it_travels(agent: Agent) -> None:
    size = 2 * 1024**3 if IS_FULL_SCALE else 20_000_000
    with (agent.work / "large.bin").open("wb") as file:
        file.truncate(size)
    commit_file(agent.work)
    said = agent.refused(*([] if IS_FULL_SCALE else limit(max_file_bytes=10_000_000)))
    most = "1.074 GB" if IS_FULL_SCALE else "10 MB"
    assert (
        f"'large.bin' has {'2.147 GB' if IS_FULL_SCALE else '20 MB'}, and the most that a file may have is {most}"
        in said
    )
    assert f"-S pull.max_file_bytes={size}" in said
    agent.mngr(*limit(max_file_bytes=size), "pull", "foo", timeout=300)


def test_a_file_that_grows_out_of_a_few_bytes_does_not_fill_the_memory(agent: Agent) -> None:
    """A delta that copies its base twenty times."""
    base, times = bytes(0xFFFFFF), 20
    oid = write(agent.work, "blob", base)
    delta = varint(len(base)) + varint(len(base) * times) + b"\xf0\xff\xff\xff" * times
    body = b"PACK" + struct.pack(">II", 2, 2) + entry(3, len(base)) + zlib.compress(base)
    body += entry(7, len(delta)) + bytes.fromhex(oid) + zlib.compress(delta)
    argv = ["git", "-C", str(agent.work), "index-pack", "--stdin", "--fix-thin"]
    subprocess.run(argv, input=body + hashlib.sha1(body).digest(), capture_output=True, check=True)
    grown = subprocess.run(
        ["git", "-C", str(agent.work), "cat-file", "--batch-all-objects", "--batch-check"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    (large,) = [row.split()[0] for row in grown if row.endswith(str(len(base) * times))]
    run_git(
        agent.work,
        "update-index",
        "--add",
        "--cacheinfo",
        f"100644,{large},grown",
        "--cacheinfo",
        f"100644,{oid},base",
    )
    agent.take(run_git(agent.work, "write-tree"))
    assert "memory" in agent.refused(*limit(max_file_bytes=1_000_000))


def varint(number: int) -> bytes:
    """A size as a delta has it."""
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def entry(kind: int, size: int) -> bytes:
    """The head of an object in a pack."""
    first, size = kind << 4 | size & 15, size >> 4
    out = b""
    while size:
        out, first, size = out + bytes([first | 0x80]), size & 0x7F, size >> 7
    return out + bytes([first])


def test_a_repository_that_never_answers_is_left_in_time(agent: Agent) -> None:
    commit_file(agent.work)
    head = agent.work / ".git/refs/heads/mngr/foo"
    old = head.read_text()
    head.unlink()
    os.mkfifo(head)
    before = list_refs(agent.mngr.repo), objects(agent.mngr.repo)
    ran = agent.mngr(*limit(timeout="1s"), "pull", "foo", code=5)
    assert "did not come within 1s" in ran.err
    assert (list_refs(agent.mngr.repo), objects(agent.mngr.repo)) == before
    head.unlink()
    head.write_text(old)
    agent.mngr("pull", "foo")


def test_only_what_is_new_travels(agent: Agent) -> None:
    for number in range(3):
        (agent.work / f"f{number}").write_bytes(NOISE.randbytes(600_000))
        done = commit_file(agent.work)
        agent.mngr(*limit(max_bytes=1_000_000), "pull", "foo")
        assert list_refs(agent.mngr.repo)[BRANCH] == done
    run_git(agent.mngr.repo, "fsck", "--strict")
    assert not list((agent.mngr.repo / ".git/objects").glob("tmp_*"))


def test_limits_of_the_project_do_not_count(agent: Agent) -> None:
    """It is what agents write."""
    (agent.mngr.repo / ".mngr").mkdir()
    (agent.mngr.repo / ".mngr/settings.toml").write_text("[pull]\nmax_bytes = 1\n")
    done = commit_file(agent.work)
    agent.mngr("pull", "foo")
    assert list_refs(agent.mngr.repo)[BRANCH] == done


# ---- outputs


def hostile(place: Path, how: str) -> None:
    match how:
        case "pipe":
            os.mkfifo(place / "x")
        case "link out":
            (place / "x").symlink_to("/etc/passwd")
        case "link up":
            (place / "d").mkdir()
            (place / "d/x").symlink_to("../../agent.json")
        case "too deep":
            (place / "/".join("d" * 150)).mkdir(parents=True)
        case "10 GB of nothing":
            with (place / "x").open("wb") as file:
                file.truncate(10 * 1024**3 + 1)
        case "too many":
            for number in range(30):
                (place / str(number)).touch()
        case "too much":
            for number in range(3):
                (place / str(number)).write_bytes(bytes(400_000))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("pipe", "it is a pipe or a device"),
        ("link out", "it links to '/etc/passwd', outside"),
        ("link up", "it links to '../../agent.json', outside"),
        ("too deep", "too deep"),
        ("10 GB of nothing", "has 10.74 GB, and at most 1.074 GB may come"),
        ("too many", "at most 20 files may come"),
        ("too much", "at most 1 MB may come"),
    ],
)
def test_outputs_that_are_too_much_or_lead_elsewhere_are_refused(agent: Agent, how: str, said: str) -> None:
    hostile(agent.dir / "outputs", how)
    most = limit(max_files=20) if how == "too many" else limit(max_bytes=1_000_000) if how == "too much" else []
    ran = agent.mngr(*most, "pull", "foo", code=1)
    assert ran.err.startswith("Error: refused: ") and said in ran.err
    landed = agent.mngr.repo / ".mngr/outputs/foo"
    for path in landed.rglob("*"):
        assert os.path.realpath(path).startswith(str(landed)) and not path.name.startswith(".mngr-")


def test_odd_outputs_come_as_plain_files(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    place = agent.dir / "outputs"
    (place / "one").write_text("1")
    os.link(place / "one", place / "two")
    with (place / "holes").open("wb") as file:
        file.truncate(5_000_000)
    monkeypatch.chdir(place)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("listens")
        agent.mngr("pull", "foo")
    landed = agent.mngr.repo / ".mngr/outputs/foo"
    assert sorted(path.name for path in landed.iterdir()) == ["holes", "one", "two"]
    assert (landed / "two").read_text() == "1" and (landed / "two").stat().st_nlink == 1
    assert (landed / "holes").stat().st_size == 5_000_000


def test_a_file_by_name_may_be_as_large_as_all(agent: Agent) -> None:
    (agent.work / "x").write_bytes(bytes(2000))
    agent.mngr(*limit(max_file_bytes=1000), "pull", "foo:x", "got")
    assert (agent.mngr.repo / "got").stat().st_size == 2000
    assert "at most 1 kB" in agent.mngr(*limit(max_bytes=1000), "pull", "foo:x", "more", code=1).err
    assert not (agent.mngr.repo / "more").exists()
