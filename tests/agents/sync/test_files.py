"""Tests that archives from a hostile agent are refused or stay below the target."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mngr.agents.sync import files, transfer_limits
from mngr.base.errors import MngrError, TimedOut
from mngr.base.paths import Home
from mngr.providers.local import LocalHost


def unpack(entries: list[tuple[str, str, str]], target: Path) -> None:
    """Pass entries (name, kind, content or link) through the code that reads an agent's archive."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, kind, text in entries:
            member = tarfile.TarInfo(name)
            member.type = {
                "file": tarfile.REGTYPE,
                "dir": tarfile.DIRTYPE,
                "link": tarfile.SYMTYPE,
                "hard": tarfile.LNKTYPE,
            }.get(kind, kind.encode()[:1])
            if kind == "file":
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
            else:
                member.linkname = text
                archive.addfile(member)
    receive(data.getvalue(), target)


def receive(data: bytes, target: Path, limits: transfer_limits.TransferLimits | None = None) -> None:
    """Read an archive as if it came from an agent."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        for archive, member in files._iter_members(file, limits or transfer_limits.TransferLimits()):
            files._extract(archive, member, str(target))


@pytest.mark.parametrize(
    "entries",
    [
        [("/abs", "file", "x")],
        [("../up", "file", "x")],
        [("a/../../up", "file", "x")],
        [("x", "link", "/etc")],
        [("x", "link", "../outside")],
        [("x", "link", "a/../../outside")],
        [("d", "link", "."), ("x", "link", "d/d/..")],
        [("a", "dir", ""), ("a/x", "link", "../../outside")],
        [("x", "hard", "../outside/secret")],
        [("x", "hard", "/etc/passwd")],
        [("x", tarfile.CHRTYPE.decode(), "")],
        [("x", tarfile.BLKTYPE.decode(), "")],
        [("x", tarfile.FIFOTYPE.decode(), "")],
        [("/".join("d" * 200), "dir", "")],
    ],
)
def test_an_entry_outside_of_the_target_is_refused(tmp_path: Path, entries: list[tuple[str, str, str]]) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    with pytest.raises(MngrError, match="refused"):
        unpack(entries, tmp_path / "target")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file() and path.read_text() != "secret"] == []


_NAME = st.sampled_from(["a", "b", "c"])
_PATH = st.lists(_NAME, min_size=1, max_size=3).map("/".join)
_LINK = st.lists(st.sampled_from(["a", "b", "c", "..", "."]), min_size=1, max_size=5).map("/".join)
_ENTRY = st.one_of(
    st.tuples(_PATH, st.just("file"), st.just("x")), st.tuples(_PATH, st.just("dir"), st.just("")),
    st.tuples(_PATH, st.just("link"), _LINK), st.tuples(_PATH, st.just("hard"), _PATH),
)  # fmt: skip


@given(st.lists(st.lists(_ENTRY, max_size=6), min_size=1, max_size=2))
def test_no_archive_writes_outside_of_the_target(
    tmp_path_factory: pytest.TempPathFactory, archives: list[list[tuple[str, str, str]]]
) -> None:
    """Links may be chained, replaced and written through, in one archive or over several."""
    top = tmp_path_factory.mktemp("top")
    target = top / "target"
    for entries in archives:
        try:
            unpack(entries, target)
        except MngrError:
            pass
    assert [path.name for path in top.iterdir()] in ([], ["target"])
    for path in target.rglob("*"):
        assert os.path.realpath(path).startswith(str(target))


def test_files_beyond_the_limits_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(20):
        (source / str(number)).write_text("x" * 100)
    host = LocalHost(Home(str(tmp_path / "home")))
    assert files.receive_files(host, str(source), ["."], str(tmp_path / "a")) == 20
    for limits, message in (
        (transfer_limits.TransferLimits(files=10), "the limit is 10 files"),
        (transfer_limits.TransferLimits(bytes=1000), "the limit is 1 kB"),
        (transfer_limits.TransferLimits(file_bytes=99), "has a size of 100 bytes, and the limit is 99 bytes"),
    ):
        with pytest.raises(MngrError, match=message):
            files.receive_files(host, str(source), ["."], str(tmp_path / "b"), limits)


def test_git_directories_of_the_agent_are_skipped(tmp_path: Path) -> None:
    unpack([("a/.git/config", "file", "x"), (".GIT/hooks/x", "file", "x"), ("a/ok", "file", "x")], tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "ok"]


@pytest.mark.parametrize(
    "names",
    [
        ["HEAD", "objects/x", "refs/x"],
        ["d/refs/x", "d/HEAD", "d/objects/x"],
        ["d/HEAD", "d/refs/x", "d/OBJECTS/x"],
        ["d/HEAD", "d/commondir"],
        ["d/commondir", "d/HE\u200cAD"],
    ],
)
def test_a_directory_that_git_takes_for_a_repository_is_refused(tmp_path: Path, names: list[str]) -> None:
    """git obeys the settings of such a directory, whatever its name is."""
    with pytest.raises(MngrError, match="is a git repository"):
        unpack([(name, "file", "x") for name in names], tmp_path)
    with pytest.raises(MngrError, match="is a git repository"):  # also when the files come one by one
        for name in names:
            unpack([(name, "file", "x")], tmp_path)


def test_files_with_names_from_a_repository_are_received_if_they_make_no_repository(tmp_path: Path) -> None:
    names = ["HEAD", "refs/HEAD", "a/objects/refs", "a/HEAD", "b/refs", "b/objects", "b/commondir"]
    unpack([(name, "file", "x") for name in names], tmp_path)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == sorted(names)


def make_sample_archive() -> bytes:
    """Return an archive with short, long and empty files."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, size in (("a", 10), ("d/" + "long" * 40, 700), ("é", 0)):
            member = tarfile.TarInfo(name)
            member.size = size
            archive.addfile(member, io.BytesIO(b"x" * size))
    return data.getvalue()


@given(
    st.lists(st.tuples(st.integers(0, 8000), st.binary(min_size=1, max_size=12)), max_size=4),
    st.integers(0, 12000),
)
def test_a_damaged_archive_fails_with_a_regular_error(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, bytes]], cut: int
) -> None:
    top = tmp_path_factory.mktemp("top")
    data = bytearray(make_sample_archive())
    for offset, replacement in changes:
        data[offset : offset + len(replacement)] = replacement
    try:
        receive(bytes(data[:cut]), top / "target")
    except (MngrError, tarfile.TarError):
        pass
    assert [path.name for path in top.iterdir()] in ([], ["target"])


def test_an_archive_that_ends_between_two_files_is_an_error(tmp_path: Path) -> None:
    data = make_sample_archive()
    end = data.rstrip(b"\0")
    for cut in range(0, len(end), 512):
        with pytest.raises(tarfile.TarError):
            receive(data[:cut], tmp_path)
    receive(data, tmp_path)


@pytest.mark.parametrize("kind", ["x", "g", "L", "K", "X"])
def test_a_forged_header_cannot_fill_the_memory(tmp_path: Path, kind: str) -> None:
    member = tarfile.TarInfo("x")
    member.type, member.size = kind.encode(), 1 << 36
    with tempfile.TemporaryFile(dir=tmp_path) as file:
        file.write(member.tobuf(tarfile.GNU_FORMAT))
        file.truncate(1 << 36)
        file.seek(0)
        with pytest.raises(MngrError, match="not a tar archive"):
            list(files._iter_members(file, transfer_limits.TransferLimits(bytes=1 << 40, file_bytes=1 << 40)))


def test_endless_headers_fail_with_a_regular_error(tmp_path: Path) -> None:
    member = tarfile.TarInfo("x")
    member.type, member.size = b"L", 1
    with pytest.raises((MngrError, tarfile.TarError)):
        receive((member.tobuf(tarfile.GNU_FORMAT) + b"x".ljust(512, b"\0")) * 5000, tmp_path)


def test_a_host_that_sends_nothing_times_out(tmp_path: Path) -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as stream, os.fdopen(write, "wb"), pytest.raises(TimedOut):
        list(files._iter_members(stream, transfer_limits.TransferLimits(seconds=0.1)))
