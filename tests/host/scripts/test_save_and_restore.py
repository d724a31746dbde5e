"""Saving, removing and restoring an agent on hosts of every kind, and finding leftovers there."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mngr import Fleet
from mngr.agents.archive.destroy import remove_from_host
from mngr.agents.archive.gc import mngr_homes_on_hosts
from mngr.agents.saved import fetch_to_temporary_home
from mngr.agents.saved.restore import RestoreRequest, restore_agent
from mngr.agents.saved.save import SaveRequest
from mngr.agents.workdir.discard_agent import finish_restore
from mngr.base.errors import Unreachable
from mngr.base.model import AgentRecord
from mngr.host import record_store
from mngr.host.remote_host import RemoteHost
from tests.agents.saved.test_save_restore import commit, make_nasty, state, write
from tests.conftest import MngrProgram, run_git
from tests.host.scripts.conftest import Land

ID = "a-0123456789ab"


class Wire:
    """A transport to this machine with only the programs of one kind of host."""

    def __init__(self, land: Land) -> None:
        self.land = land

    def build_argv(self, program: str, *, terminal: bool = False, only: Sequence[str] | None = None) -> list[str]:
        env = [f"{key}={value}" for key, value in self.land.env.items()]
        return ["env", "-i", *(env if only is None else only), str(self.land.bin / "sh"), "-c", program]

    def make_lost_error(self, stderr: str) -> Unreachable:
        return Unreachable(f"lost: {stderr}")

    def close(self) -> None:
        pass


@pytest.fixture
def host(plain: Land, tmp_path: Path) -> RemoteHost:
    home = tmp_path / "there"
    plain.run("host_facts.sh", home, "make")
    return RemoteHost("there", "ssh", Wire(plain), str(home), os.getuid())


def make_agent(host: RemoteHost, repo: Path, **more: Any) -> tuple[AgentRecord, Path]:
    """Create an agent without mngr and return its record and work dir."""
    work = Path(host.home.work_dirs) / "foo"
    shutil.copytree(repo, work)
    run_git(work, "checkout", "-q", "-b", "mngr/foo")
    values: dict[str, Any] = {
        "id": ID, "name": "foo", "kind": "command", "phase": "ready", "host": "there", "provider": "ssh", "project": "p",
        "source": str(repo), "work_dir": str(work), "transfer": "mirror", "branch": "mngr/foo",
        "base": run_git(repo, "rev-parse", "HEAD"), "created_at": "2026-01-01T00:00:00.000Z", "command": ["true"], **more,
    }  # fmt: skip
    record = AgentRecord(**values)
    agent_dir = Path(host.home.agent_dir(ID))
    agent_dir.mkdir()
    (agent_dir / "outputs").mkdir()
    (agent_dir / "outputs" / "result").write_text("done")
    (agent_dir / "env").write_text("export HOME=/old\n# given\nexport A='b c'\nexport MNGR_AGENT_ID=x\n")
    record_store.save_record(host, record)
    os.symlink(ID, os.path.join(host.home.names, "foo"))
    return record, work


def test_a_saved_agent_can_be_removed_and_restored_unchanged(host: RemoteHost, mngr: MngrProgram) -> None:
    record, work = make_agent(host, mngr.repo)
    run_git(work, "config", "user.name", "A")
    write(work, "README.md", b"stashed\n")
    run_git(work, "stash", "-q")
    make_nasty(work)
    (work / "noise.log").unlink()
    write(work, "long/" + "n" * 120 + "/" + "m" * 150, b"x")
    os.link(work / "long" / ("n" * 120) / ("m" * 150), work / "second name")
    before, stashes = state(work), run_git(work, "stash", "list")
    write(work, "build/junk", b"x" * 5000)
    ctx, saved_dir = Fleet(str(mngr.home), cwd=str(mngr.repo)).context, mngr.home.parent / "kept"
    saved = fetch_to_temporary_home.save_agent(ctx, host, record, SaveRequest(target=str(saved_dir), why="snapshot"))
    assert saved.ignored_bytes >= 4096 and saved.dirty
    remove_from_host(host, record)
    assert [os.listdir(path) for path in (host.home.agents, host.home.work_dirs, host.home.names)] == [
        [],
        [],
        [],
    ]
    remove_from_host(host, record)  # the removal can be repeated
    restored = restore_agent(
        ctx, str(saved_dir), saved, RestoreRequest(operation="undestroy", name="foo", host=host, agent_id=ID)
    )
    finish_restore(host, restored.record)
    assert restored.record.work_dir == str(work) and restored.notes == []
    assert state(work) == before and run_git(work, "stash", "list") == stashes
    agent_dir = Path(host.home.agent_dir(ID))
    assert (agent_dir / "outputs" / "result").read_text() == "done"
    assert sorted(name for name in os.listdir(agent_dir) if name not in ("outputs", "env", "agent.json")) == [
        "events.jsonl",
        "stopped",
    ]
    assert f"MNGR_AGENT_ID={ID}\n" in (agent_dir / "env").read_text()
    assert os.readlink(os.path.join(host.home.names, "foo")) == ID


def test_a_saved_worktree_contains_its_git_objects(host: RemoteHost, mngr: MngrProgram, tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    shutil.copytree(mngr.repo, origin)
    work = Path(host.home.work_dirs) / "foo"
    run_git(origin, "worktree", "add", "-q", "-b", "mngr/foo", str(work))
    commit(work, "--allow-empty", "-m", "mine")
    write(work, "staged", b"s")
    run_git(work, "add", "staged")
    before = state(work)
    agent_dir = Path(host.home.agent_dir(ID))
    agent_dir.mkdir()
    (agent_dir / "env").write_text("# given\nexport MNGR_AGENT_ID=x\n")
    record = AgentRecord(
        id=ID, name="foo", kind="command", phase="ready", host="there", provider="ssh", project="p", source=str(origin),
        work_dir=str(work), transfer="worktree", branch="mngr/foo", created_at="2026-01-01T00:00:00.000Z",
        base=run_git(mngr.repo, "rev-parse", "HEAD"),
    )  # fmt: skip
    record_store.save_record(host, record)
    ctx, saved_dir = Fleet(str(mngr.home), cwd=str(mngr.repo)).context, mngr.home.parent / "kept"
    saved = fetch_to_temporary_home.save_agent(ctx, host, record, SaveRequest(target=str(saved_dir), why="snapshot"))
    assert not (agent_dir / "gather").exists()
    remove_from_host(host, record)
    restored = restore_agent(
        ctx, str(saved_dir), saved, RestoreRequest(operation="undestroy", name="foo", host=host, agent_id=ID)
    )
    assert state(work) == before and restored.record.transfer == "mirror"
    run_git(work, "fsck", "--strict", "--no-dangling")


def test_an_interrupted_transfer_leaves_no_work_dir(host: RemoteHost, plain: Land, tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as file:
        for name, data in (("./env", b"x"), ("./landing/big", b"x" * 40_000), ("complete", b"")):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            file.addfile(member, io.BytesIO(data))
    complete_stream = out.getvalue()
    agent_dir = Path(host.home.agent_dir(ID))
    for end in (0, 512, 1024, 1536, 20_000, 1024 + 512 + 40_448, len(complete_stream)):
        agent_dir.mkdir()
        argv = plain.argv("unpack_agent.sh", host.home.root, ID, "foo", "755", "")
        result = subprocess.run(argv, input=complete_stream[:end], env=plain.env, capture_output=True, check=False)
        assert (
            (result.returncode == 0) == (Path(host.home.work_dirs) / "foo").exists() == (end == len(complete_stream))
        ), end
        shutil.rmtree(agent_dir)


def age(path: Path, days: float) -> None:
    then = time.time() - days * 86400
    os.utime(path, (then, then), follow_symlinks=False)


def test_leftovers_are_reported_only_when_they_are_old(host: RemoteHost, plain: Land, mngr: MngrProgram) -> None:
    make_agent(host, mngr.repo)
    home = Path(host.home.root)
    (home / "names" / "gone").symlink_to("a-0123456789ac")
    (home / "names" / "other").symlink_to(ID)
    for name in ("a-0123456789ad.gone", "a-0123456789ae"):
        (home / "agents" / name).mkdir()
    (home / "agents" / "a-0123456789af").mkdir()
    (home / "agents" / "a-0123456789af" / "agent.json").write_text("{")  # damaged is not empty
    (home / "agents" / ID / "gather").mkdir()
    (home / "agents" / ID / "agent.json.77.new").touch()
    (home / "cache" / "sources" / "x.git").mkdir(parents=True)
    (home / "work" / "whose é\nis this").mkdir()
    first_look = mngr_homes_on_hosts.find_home_contents(host)
    assert first_look is not None
    assert (
        first_look.names,
        first_look.dangling_names,
        first_look.empty_agents,
        first_look.leftovers,
        first_look.unused_sources,
    ) == (
        [],
        [],
        [],
        [],
        [],
    )
    assert first_look.unknown_work_dirs == ["whose é\nis this"]
    for path in (home / "names").iterdir():
        age(path, 0.01)
    age(home / "agents" / ID / "gather", 2)
    age(home / "agents" / ID / "agent.json.77.new", 2)
    for path in (home / "agents").iterdir():
        age(path, 0.01)
    age(home / "cache" / "sources" / "x.git", 40)
    second_look = mngr_homes_on_hosts.find_home_contents(host)
    assert second_look is not None
    assert sorted(second_look.names) == [["foo", ID], ["other", ID]]
    assert second_look.dangling_names == [["gone", "a-0123456789ac"]]
    assert second_look.empty_agents == ["a-0123456789ae"]
    assert sorted(second_look.leftovers) == [
        f"agents/{ID}/agent.json.77.new",
        f"agents/{ID}/gather",
        "agents/a-0123456789ad.gone",
    ]
    assert second_look.unused_sources == ["x.git"]
