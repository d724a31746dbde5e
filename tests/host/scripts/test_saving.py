"""An agent of every kind of host brought home, taken away, made again and landed there; and what lies about there."""

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
from mngr.agents.archive.gc import remote_homes
from mngr.agents.saved import staging
from mngr.agents.saved.restore import RestoreRequest, restore_agent
from mngr.agents.workdir.discard import finish_restore
from mngr.base.errors import Unreachable
from mngr.base.model import AgentRecord
from mngr.host import store
from mngr.host.remote_host import RemoteHost
from tests.agents.saved.test_save_restore import commit, make_nasty, state, write
from tests.conftest import MngrProgram, run_git
from tests.host.scripts.conftest import Land

ID = "a-0123456789ab"


class Wire:
    """A host that is this machine, with nothing but the programs of its kind."""

    def __init__(self, land: Land) -> None:
        self.land = land

    def build_argv(self, program: str, *, terminal: bool = False, only: Sequence[str] | None = None) -> list[str]:
        env = [f"{key}={value}" for key, value in self.land.env.items()]
        return ["env", "-i", *(env if only is None else only), str(self.land.bin / "sh"), "-c", program]

    def make_lost_error(self, said: str) -> Unreachable:
        return Unreachable(f"lost: {said}")

    def close(self) -> None:
        pass


@pytest.fixture
def host(plain: Land, tmp_path: Path) -> RemoteHost:
    home = tmp_path / "there"
    plain.run("hello.sh", home, "make")
    return RemoteHost("there", "ssh", Wire(plain), str(home), os.getuid())


def make(host: RemoteHost, repo: Path, **more: Any) -> tuple[AgentRecord, Path]:
    """An agent without mngr: its record and its work dir."""
    work = Path(host.home.work_dirs) / "foo"
    shutil.copytree(repo, work)
    run_git(work, "checkout", "-q", "-b", "mngr/foo")
    values: dict[str, Any] = {
        "id": ID, "name": "foo", "kind": "command", "phase": "ready", "host": "there", "provider": "ssh", "project": "p",
        "source": str(repo), "work_dir": str(work), "transfer": "mirror", "branch": "mngr/foo",
        "base": run_git(repo, "rev-parse", "HEAD"), "created_at": "2026-01-01T00:00:00.000Z", "command": ["true"], **more,
    }  # fmt: skip
    record = AgentRecord(**values)
    own = Path(host.home.agent_dir(ID))
    own.mkdir()
    (own / "outputs").mkdir()
    (own / "outputs" / "result").write_text("done")
    (own / "env").write_text("export HOME=/old\n# given\nexport A='b c'\nexport MNGR_AGENT_ID=x\n")
    store.save_record(host, record)
    os.symlink(ID, os.path.join(host.home.names, "foo"))
    return record, work


def test_there_and_back(host: RemoteHost, mngr: MngrProgram) -> None:
    record, work = make(host, mngr.repo)
    run_git(work, "config", "user.name", "A")
    write(work, "README.md", b"stashed\n")
    run_git(work, "stash", "-q")
    make_nasty(work)
    (work / "noise.log").unlink()
    write(work, "long/" + "n" * 120 + "/" + "m" * 150, b"x")
    os.link(work / "long" / ("n" * 120) / ("m" * 150), work / "second name")
    before, stashes = state(work), run_git(work, "stash", "list")
    write(work, "build/junk", b"x" * 5000)
    ctx, kept = Fleet(str(mngr.home), cwd=str(mngr.repo)).context, mngr.home.parent / "kept"
    meta = staging.save_agent(ctx, host, record, str(kept), why="snapshot")
    assert meta["ignored_bytes"] >= 4096 and meta["dirty"]
    remove_from_host(host, record)
    assert [os.listdir(path) for path in (host.home.agents, host.home.work_dirs, host.home.names)] == [
        [],
        [],
        [],
    ]
    remove_from_host(host, record)  # may be repeated
    made = restore_agent(
        ctx, str(kept), meta, RestoreRequest(operation="undestroy", name="foo", host=host, agent_id=ID)
    )
    finish_restore(host, made.record)
    assert made.record.work_dir == str(work) and made.notes == []
    assert state(work) == before and run_git(work, "stash", "list") == stashes
    own = Path(host.home.agent_dir(ID))
    assert (own / "outputs" / "result").read_text() == "done"
    assert sorted(name for name in os.listdir(own) if name not in ("outputs", "env", "agent.json")) == [
        "events.jsonl",
        "stopped",
    ]
    assert f"MNGR_AGENT_ID={ID}\n" in (own / "env").read_text()
    assert os.readlink(os.path.join(host.home.names, "foo")) == ID


def test_a_worktree_brings_its_objects(host: RemoteHost, mngr: MngrProgram, tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    shutil.copytree(mngr.repo, origin)
    work = Path(host.home.work_dirs) / "foo"
    run_git(origin, "worktree", "add", "-q", "-b", "mngr/foo", str(work))
    commit(work, "--allow-empty", "-m", "mine")
    write(work, "staged", b"s")
    run_git(work, "add", "staged")
    before = state(work)
    own = Path(host.home.agent_dir(ID))
    own.mkdir()
    (own / "env").write_text("# given\nexport MNGR_AGENT_ID=x\n")
    record = AgentRecord(
        id=ID, name="foo", kind="command", phase="ready", host="there", provider="ssh", project="p", source=str(origin),
        work_dir=str(work), transfer="worktree", branch="mngr/foo", created_at="2026-01-01T00:00:00.000Z",
        base=run_git(mngr.repo, "rev-parse", "HEAD"),
    )  # fmt: skip
    store.save_record(host, record)
    ctx, kept = Fleet(str(mngr.home), cwd=str(mngr.repo)).context, mngr.home.parent / "kept"
    meta = staging.save_agent(ctx, host, record, str(kept), why="snapshot")
    assert not (own / "gather").exists()
    remove_from_host(host, record)
    made = restore_agent(
        ctx, str(kept), meta, RestoreRequest(operation="undestroy", name="foo", host=host, agent_id=ID)
    )
    assert state(work) == before and made.record.transfer == "mirror"
    run_git(work, "fsck", "--strict", "--no-dangling")


def test_a_landing_that_is_cut_off_leaves_no_work_dir(host: RemoteHost, plain: Land, tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as file:
        for name, data in (("./env", b"x"), ("./landing/big", b"x" * 40_000), ("complete", b"")):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            file.addfile(member, io.BytesIO(data))
    whole = out.getvalue()
    own = Path(host.home.agent_dir(ID))
    for end in (0, 512, 1024, 1536, 20_000, 1024 + 512 + 40_448, len(whole)):
        own.mkdir()
        argv = plain.argv("land.sh", host.home.root, ID, "foo", "755", "")
        done = subprocess.run(argv, input=whole[:end], env=plain.env, capture_output=True, check=False)
        assert (done.returncode == 0) == (Path(host.home.work_dirs) / "foo").exists() == (end == len(whole)), end
        shutil.rmtree(own)


def age(path: Path, days: float) -> None:
    then = time.time() - days * 86400
    os.utime(path, (then, then), follow_symlinks=False)


def test_what_lies_about_is_named_when_it_is_old(host: RemoteHost, plain: Land, mngr: MngrProgram) -> None:
    make(host, mngr.repo)
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
    fresh = remote_homes.find_home_contents(host)
    assert fresh is not None
    assert (fresh.names, fresh.dangling_names, fresh.empty_agents, fresh.leftovers, fresh.unused_sources) == (
        [],
        [],
        [],
        [],
        [],
    )
    assert fresh.unknown_work_dirs == ["whose é\nis this"]
    for path in (home / "names").iterdir():
        age(path, 0.01)
    age(home / "agents" / ID / "gather", 2)
    age(home / "agents" / ID / "agent.json.77.new", 2)
    for path in (home / "agents").iterdir():
        age(path, 0.01)
    age(home / "cache" / "sources" / "x.git", 40)
    found = remote_homes.find_home_contents(host)
    assert found is not None
    assert sorted(found.names) == [["foo", ID], ["other", ID]]
    assert found.dangling_names == [["gone", "a-0123456789ac"]]
    assert found.empty_agents == ["a-0123456789ae"]
    assert sorted(found.leftovers) == [
        f"agents/{ID}/agent.json.77.new",
        f"agents/{ID}/gather",
        "agents/a-0123456789ad.gone",
    ]
    assert found.unused_sources == ["x.git"]
