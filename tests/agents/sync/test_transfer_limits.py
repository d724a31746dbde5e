"""Tests of the limits on transfers from an agent: anything larger is refused with a message and leaves nothing."""

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


def build_limit_args(**values: object) -> list[str]:
    """Return the command-line arguments that set these limits."""
    return [word for key, value in values.items() for word in ("-S", f"pull.{key}={value}")]


# ---- commits


def test_commits_beyond_the_size_limit_are_refused_in_one_or_many_files(agent: Agent) -> None:
    for count, size in ((1, 3_000_000), (2000, 1500)):
        with agent.back():
            for number in range(count):
                (agent.work / f"f{number}").write_bytes(NOISE.randbytes(size))
            commit_file(agent.work)
            assert "more than 1 MB of new objects" in agent.refused(*build_limit_args(max_bytes=1_000_000))
    agent.mngr("pull", "foo")


def test_a_file_beyond_the_limit_is_refused_by_name_even_if_it_compresses_well(agent: Agent) -> None:
    size = 2 * 1024**3 if IS_FULL_SCALE else 20_000_000
    with (agent.work / "large.bin").open("wb") as file:
        file.truncate(size)
    commit_file(agent.work)
    error = agent.refused(*([] if IS_FULL_SCALE else build_limit_args(max_file_bytes=10_000_000)))
    maximum = "1.074 GB" if IS_FULL_SCALE else "10 MB"
    assert (
        f"'large.bin' has a size of {'2.147 GB' if IS_FULL_SCALE else '20 MB'}, and the limit for a file is {maximum}"
        in error
    )
    assert f"mngr config set --user pull.max_file_bytes {size}" in error
    agent.mngr(*build_limit_args(max_file_bytes=size), "pull", "foo", timeout=300)


def test_a_delta_that_expands_to_a_huge_file_does_not_fill_the_memory(agent: Agent) -> None:
    """The delta copies its base twenty times."""
    base, times = bytes(0xFFFFFF), 20
    oid = write(agent.work, "blob", base)
    delta = encode_delta_size(len(base)) + encode_delta_size(len(base) * times) + b"\xf0\xff\xff\xff" * times
    body = b"PACK" + struct.pack(">II", 2, 2) + encode_pack_header(3, len(base)) + zlib.compress(base)
    body += encode_pack_header(7, len(delta)) + bytes.fromhex(oid) + zlib.compress(delta)
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
    assert "memory" in agent.refused(*build_limit_args(max_file_bytes=1_000_000))


def encode_delta_size(number: int) -> bytes:
    """Return a size in the encoding of a delta."""
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def encode_pack_header(kind: int, size: int) -> bytes:
    """Return the header of an object in a pack."""
    first, size = kind << 4 | size & 15, size >> 4
    out = b""
    while size:
        out, first, size = out + bytes([first | 0x80]), size & 0x7F, size >> 7
    return out + bytes([first])


def test_pull_from_a_repository_that_never_answers_times_out(agent: Agent) -> None:
    commit_file(agent.work)
    head = agent.work / ".git/refs/heads/mngr/foo"
    old = head.read_text()
    head.unlink()
    os.mkfifo(head)
    before = list_refs(agent.mngr.repo), objects(agent.mngr.repo)
    result = agent.mngr(*build_limit_args(timeout="1s"), "pull", "foo", code=5)
    assert "did not arrive within 1s" in result.err
    assert (list_refs(agent.mngr.repo), objects(agent.mngr.repo)) == before
    head.unlink()
    head.write_text(old)
    agent.mngr("pull", "foo")


def test_pull_transfers_only_new_objects(agent: Agent) -> None:
    for number in range(3):
        (agent.work / f"f{number}").write_bytes(NOISE.randbytes(600_000))
        commit = commit_file(agent.work)
        agent.mngr(*build_limit_args(max_bytes=1_000_000), "pull", "foo")
        assert list_refs(agent.mngr.repo)[BRANCH] == commit
    run_git(agent.mngr.repo, "fsck", "--strict")
    assert not list((agent.mngr.repo / ".git/objects").glob("tmp_*"))


def test_limits_in_the_project_settings_are_ignored(agent: Agent) -> None:
    """Agents can write the project's settings, so these must not set limits."""
    (agent.mngr.repo / ".mngr").mkdir()
    (agent.mngr.repo / ".mngr/settings.toml").write_text("[pull]\nmax_bytes = 1\n")
    commit = commit_file(agent.work)
    agent.mngr("pull", "foo")
    assert list_refs(agent.mngr.repo)[BRANCH] == commit


# ---- outputs


def plant_hostile_output(outputs_dir: Path, how: str) -> None:
    """Create an output of the hostile kind `how`."""
    match how:
        case "pipe":
            os.mkfifo(outputs_dir / "x")
        case "link out":
            (outputs_dir / "x").symlink_to("/etc/passwd")
        case "link up":
            (outputs_dir / "d").mkdir()
            (outputs_dir / "d/x").symlink_to("../../agent.json")
        case "too deep":
            (outputs_dir / "/".join("d" * 150)).mkdir(parents=True)
        case "10 GB of nothing":
            with (outputs_dir / "x").open("wb") as file:
                file.truncate(10 * 1024**3 + 1)
        case "too many":
            for number in range(30):
                (outputs_dir / str(number)).touch()
        case "too much":
            for number in range(3):
                (outputs_dir / str(number)).write_bytes(bytes(400_000))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("pipe", "it is a pipe or a device"),
        ("link out", "it is a link to '/etc/passwd', outside"),
        ("link up", "it is a link to '../../agent.json', outside"),
        ("too deep", "too deep"),
        ("10 GB of nothing", "has a size of 10.74 GB, and the limit is 1.074 GB"),
        ("too many", "the limit is 20 files"),
        ("too much", "the limit is 1 MB"),
    ],
)
def test_outputs_beyond_the_limits_or_with_links_out_are_refused(agent: Agent, how: str, said: str) -> None:
    plant_hostile_output(agent.dir / "outputs", how)
    limit_args = (
        build_limit_args(max_files=20)
        if how == "too many"
        else build_limit_args(max_bytes=1_000_000)
        if how == "too much"
        else []
    )
    result = agent.mngr(*limit_args, "pull", "foo", code=1)
    assert result.err.startswith("Error: mngr refused the copy: ") and said in result.err
    pulled_dir = agent.mngr.repo / ".mngr/outputs/foo"
    for path in pulled_dir.rglob("*"):
        assert os.path.realpath(path).startswith(str(pulled_dir)) and not path.name.startswith(".mngr-")


def test_hard_links_and_sparse_files_are_pulled_as_plain_files(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs_dir = agent.dir / "outputs"
    (outputs_dir / "one").write_text("1")
    os.link(outputs_dir / "one", outputs_dir / "two")
    with (outputs_dir / "holes").open("wb") as file:
        file.truncate(5_000_000)
    monkeypatch.chdir(outputs_dir)  # The path of a socket must be short.
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("listens")
        agent.mngr("pull", "foo")
    pulled_dir = agent.mngr.repo / ".mngr/outputs/foo"
    assert sorted(path.name for path in pulled_dir.iterdir()) == ["holes", "one", "two"]
    assert (pulled_dir / "two").read_text() == "1" and (pulled_dir / "two").stat().st_nlink == 1
    assert (pulled_dir / "holes").stat().st_size == 5_000_000


def test_a_file_that_is_pulled_by_name_has_only_the_total_limit(agent: Agent) -> None:
    (agent.work / "x").write_bytes(bytes(2000))
    agent.mngr(*build_limit_args(max_file_bytes=1000), "pull", "foo:x", "got")
    assert (agent.mngr.repo / "got").stat().st_size == 2000
    assert "the limit is 1 kB" in agent.mngr(*build_limit_args(max_bytes=1000), "pull", "foo:x", "more", code=1).err
    assert not (agent.mngr.repo / "more").exists()
