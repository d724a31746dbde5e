"""Tests of `mngr gc` on this machine, run as a program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mngr.base.paths import Home
from mngr.host import host_store
from mngr.host.host_store import HostFacts
from tests.agents.archive.test_destroy import make
from tests.conftest import MngrProgram, kill_tmux_servers, run_git
from tests.support.hosts.boxes import Boxes

pytestmark = pytest.mark.hosts


def describe_owner(pid: int) -> dict[str, object]:
    """Return the owner entry of a record for this process."""
    start = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return {"pid": pid, "start": start, "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip()}


def test_gc_says_when_there_is_nothing_to_clean_up(mngr: MngrProgram) -> None:
    assert mngr("gc").err == "nothing to clean up\n"
    make(mngr)
    assert mngr("gc").err == "nothing to clean up\n"
    assert mngr.run_json("gc") == {"v": 1, "results": []}
    assert mngr.get_agent("foo")["state"] == "DONE"


def test_gc_deletes_expired_trash_and_keeps_the_rest(mngr: MngrProgram) -> None:
    make(mngr, "old")
    make(mngr, "young")
    mngr("destroy", "old", "young")
    for trash_dir in (mngr.home / "trash").iterdir():
        meta = json.loads((trash_dir / "meta.json").read_text())
        if meta["name"] == "old":
            meta["at"] = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - 31 * 86400))
            (trash_dir / "meta.json").write_text(json.dumps(meta))
    row = mngr.run_json("gc", "--dry-run")["results"][0]
    assert (row["name"], row["what"], row["action"]) == ("old", "trashed agent", "would clean")
    assert mngr("gc").out.startswith("cleaned: trashed agent old (a-")
    assert [trashed["name"] for trashed in mngr.run_json("undestroy", "--list")["trash"]] == ["young"]
    assert mngr("gc", "-S", "trash.keep=0s").out.startswith("cleaned: trashed agent young")
    assert list((mngr.home / "trash").iterdir()) == []


def test_gc_does_not_touch_what_another_process_is_working_on(mngr: MngrProgram) -> None:
    make(mngr)
    path = mngr.get_agent_dir("foo") / "agent.json"
    record = json.loads(path.read_text())
    partial_dir = mngr.home / "trash" / "a-0123456789ab.part"
    partial_dir.mkdir()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        for phase in ("creating", "destroying"):
            path.write_text(json.dumps({**record, "phase": phase, "owner": describe_owner(process.pid)}) + "\n")
            (partial_dir / "owner").write_text(json.dumps(describe_owner(process.pid)))
            assert mngr("gc").err == "nothing to clean up\n"
            assert mngr("destroy", "--force", "foo", code=1).err.startswith("Error: another command is ")
        assert mngr.get_work_dir("foo").is_dir() and partial_dir.is_dir()
    out = mngr("gc").out
    assert "cleaned: interrupted destroy foo" in out and "cleaned: interrupted save a-0123456789ab.part" in out
    assert mngr.list_agents() == [] and not partial_dir.exists()


def test_gc_removes_only_stray_sessions_and_dangling_names(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    mngr.run_tmux("new-session", "-d", "-s", "mine", "sleep 1000")
    mngr.run_tmux("new-session", "-d", "-s", "_watcher", "sleep 1000")
    mngr.run_tmux("new-session", "-d", "-s", "stray", "sleep 1000")
    mngr.run_tmux("set-option", "-t", "=stray:", "@mngr_id", "a-0123456789ab")
    os.symlink("a-0123456789ab", mngr.home / "names" / "gone")
    os.symlink("a-0123456789ab@box.elsewhere", mngr.home / "names" / "remote")
    out = mngr("gc").out
    assert "cleaned: stray session stray" in out and "cleaned: dangling name gone" in out
    assert sorted(mngr.run_tmux("list-sessions", "-F", "#{session_name}").split()) == [
        "_watcher",
        "foo",
        "mine",
    ]
    assert sorted(path.name for path in (mngr.home / "names").iterdir()) == ["foo", "remote"]
    assert mngr.get_agent("foo")["state"] == "RUNNING"


def test_gc_reports_and_keeps_an_unknown_directory(mngr: MngrProgram) -> None:
    make(mngr)
    strange = mngr.home / "work" / "strange"
    strange.mkdir()
    (strange / "file").write_text("whose?")
    result = mngr("gc")
    assert str(strange) in result.err and result.out == ""
    assert (strange / "file").read_text() == "whose?"
    assert mngr.run_json("gc")["results"][0]["action"] == "left"


def test_gc_deletes_packages_that_no_set_up_used_for_a_month(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "true")
    packages = mngr.home / "cache/packages"
    for name, days in [("a" * 24, 31), ("b" * 24, 29), ("a-1.tmp", 2), ("a-2.tmp", 0)]:
        (packages / name / "read-only").mkdir(parents=True)
        (packages / name / "read-only").chmod(0o500)
        os.utime(packages / name, (time.time() - days * 86400,) * 2)
    mngr("gc")
    assert sorted(path.name for path in packages.iterdir()) == ["a-2.tmp", "b" * 24]


def test_gc_deletes_cached_set_ups_that_are_long_unused(mngr: MngrProgram) -> None:
    (mngr.repo / ".mngr").mkdir()
    (mngr.repo / ".mngr" / "settings.toml").write_text('[project]\nsetup = "mkdir -p build && echo x >build/x"\n')
    run_git(mngr.repo, "add", "-A")
    run_git(mngr.repo, "commit", "-q", "-m", "settings")
    mngr("trust", "--yes")
    make(mngr)
    cached_dir = next(path for path in (mngr.home / "cache" / "setup").iterdir() if path.is_dir())
    old_time = time.time() - 40 * 86400
    os.utime(cached_dir, (old_time, old_time))
    make(mngr, "bar")  # This agent uses the cached set-up.
    assert mngr("gc").err == "nothing to clean up\n"
    os.utime(cached_dir, (old_time, old_time))
    assert "cleaned: unused set-up" in mngr("gc").out
    assert not cached_dir.exists() and (mngr.get_work_dir("foo") / "build" / "x").exists()


def test_gc_deletes_old_facts_about_images(mngr: MngrProgram) -> None:
    make(mngr)
    home = Home(str(mngr.home))
    for image in ("old", "new"):
        host_store.save_image_facts(home, "modal", image, HostFacts(uid=7))
    old_time = time.time() - 40 * 86400
    os.utime(next((mngr.home / "cache").glob("alike-*old*")), (old_time, old_time))
    assert mngr("gc").out.startswith("cleaned: cached image facts")
    assert host_store.find_image_facts(home, "modal", "old") is None
    assert host_store.find_image_facts(home, "modal", "new") == HostFacts(uid=7)


def test_gc_deletes_old_facts_about_hosts_that_no_trashed_agent_needs(mngr: MngrProgram, tmp_path: Path) -> None:
    boxes = Boxes(tmp_path / "engine")
    mngr.env.update(boxes.env)
    mngr("create", "foo@h1.box", "--", "true")
    mngr("destroy", "--force", "@h1.box")
    kill_tmux_servers(boxes.boxes)
    home = Home(str(mngr.home))
    for host in ("old", "new"):
        host_store.save_facts(home, "box", host, HostFacts(), "gone")
    old_time = time.time() - 20 * 86400
    for host in ("old", "h1"):
        os.utime(mngr.home / f"hosts/box/{host}.gone", (old_time, old_time))
    assert mngr("gc").err == "nothing to clean up\n"
    for host in ("old", "h1"):
        os.utime(mngr.home / f"hosts/box/{host}.gone", (old_time - 1e6, old_time - 1e6))
    assert mngr("gc").out == "cleaned: old records of lost hosts 1 of box\n"
    assert host_store.list_hosts(home, "box", "gone") == ["h1", "new"]


def test_gc_deletes_an_old_agent_directory_without_a_record(mngr: MngrProgram) -> None:
    make(mngr)
    empty = mngr.home / "agents" / "a-0123456789ab"
    (empty / "outputs").mkdir(parents=True)
    assert mngr.get_agent("a-0123456789ab")["state"] == "UNKNOWN"
    mngr("gc")
    assert empty.is_dir()  # Another command may be creating the agent right now.
    (empty / "restoring").write_text("[]")
    old = time.time() - 3600
    os.utime(empty, (old, old))
    mngr("gc")
    assert not empty.exists()
    damaged = mngr.home / "agents" / "a-0123456789ac"
    damaged.mkdir()
    (damaged / "agent.json").write_text("{")
    os.utime(damaged, (old, old))
    mngr("gc")
    assert damaged.is_dir()


def test_gc_of_an_interrupted_destroy_keeps_a_work_dir_that_a_newer_agent_uses(mngr: MngrProgram) -> None:
    work = make(mngr)
    mngr("rename", "foo", "bar")
    directory = mngr.get_agent_dir("bar")
    record = json.loads((directory / "agent.json").read_text())
    mngr("snapshot", "create", "bar", "saved")
    (mngr.home / "snapshots" / "saved").rename(mngr.home / "trash" / record["id"])
    (directory / "saved").write_text("")  # as if destroy was killed after saving the agent
    (directory / "agent.json").write_text(json.dumps({**record, "phase": "destroying", "owner": None}) + "\n")
    run_git(mngr.repo, "worktree", "remove", "--force", str(work))
    run_git(mngr.repo, "branch", "-q", "-D", "mngr/foo")
    assert make(mngr) == work
    (work / "new").write_text("new")
    assert "cleaned: interrupted destroy bar" in mngr("gc").out
    assert (work / "new").read_text() == "new" and run_git(work, "rev-parse", "HEAD")


def test_gc_removes_a_name_that_an_interrupted_rename_left(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    (mngr.home / "names" / "old").symlink_to(mngr.get_agent("foo")["id"])
    mngr("gc")
    assert not (mngr.home / "names" / "old").is_symlink()
    assert mngr.get_agent("foo")["state"] == "RUNNING"


def test_gc_deletes_an_incomplete_agent_directory_when_it_is_old(mngr: MngrProgram) -> None:
    make(mngr)
    half = mngr.home / "agents" / ".new-a-0123456789ab"
    half.mkdir()
    (half / "agent.json").write_text((mngr.home / "agents" / mngr.get_agent("foo")["id"] / "agent.json").read_text())
    assert [agent["name"] for agent in mngr.list_agents()] == ["foo"]
    assert mngr.run_json("gc")["results"] == []  # Another command may be creating it.
    os.utime(half, (0, 0))
    assert [row["name"] for row in mngr.run_json("gc")["results"]] == [half.name]
    assert not half.exists() and [agent["name"] for agent in mngr.list_agents()] == ["foo"]


def test_a_create_with_a_missing_provider_program_leaves_nothing_to_clean_up(mngr: MngrProgram) -> None:
    for verb, words in (
        ("create", ["{name}"]),
        ("exec", ["{name}", "{program}"]),
        ("list", []),
        ("destroy", ["{name}"]),
    ):
        mngr.env[f"MNGR__PROVIDERS__BOX__{verb.upper()}"] = json.dumps(["nosuchprogram", *words])
    mngr.env["MNGR__PROVIDERS__BOX__KIND"] = "template"
    assert "nosuchprogram is not installed" in mngr("create", "foo@.box", "--", "true", code=1).err
    assert list((mngr.home / "hosts").rglob("*.making")) == []
