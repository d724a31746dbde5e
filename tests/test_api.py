"""Tests every method of `Fleet` for real, from a directory that is not the current one of the process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mngr import AgentSpec, Fleet, MngrError
from mngr.agents.lifecycle.limit import LimitChanges
from mngr.base.errors import NotFound
from tests.conftest import MngrProgram, run_git
from tests.support.hosts.sshd import Farm
from tests.support.repos import commit_file

METHODS = {name for name, value in vars(Fleet).items() if callable(value) and not name.startswith("_")}
WORK = {
    "create", "create_many", "list", "list_hosts", "add_git_state", "get", "build_attach_argv", "get_connect_variables", "exec", "exec_attached",
    "stop", "start", "rename", "label", "limit", "diff", "pull", "pull_path", "push", "push_path", "list_settings", "get_setting",
    "set_setting", "unset_setting", "list_settings_paths", "get_settings_path", "init", "list_plugins", "doctor",
}  # fmt: skip


HOSTS = {"migrate", "pipe", "trash_agents_and_destroy_host", "list_ssh_entries", "ssh_config", "write_ssh_config"}


class Noting(Fleet):
    """A Fleet that records which of its methods were called."""

    def __init__(self, home: Path, cwd: Path) -> None:
        super().__init__(str(home), cwd=str(cwd))
        self._called: set[str] = set()

    def __getattribute__(self, name: str) -> Any:
        if name in METHODS:
            object.__getattribute__(self, "_called").add(name)
        return object.__getattribute__(self, name)


@pytest.fixture
def fleet(mngr: MngrProgram, monkeypatch: pytest.MonkeyPatch) -> Noting:
    monkeypatch.chdir(mngr.env["HOME"])
    return Noting(mngr.home, mngr.repo)


def test_methods_for_work_and_settings(fleet: Noting, mngr: MngrProgram, capfd: pytest.CaptureFixture[str]) -> None:
    assert fleet.list().agents == [] and not mngr.home.exists()
    spec = AgentSpec(
        address="one",
        command=["sleep", "1000"],
        transfer="mirror",
        env={"A": "b"},
        labels={"k": "v"},
        windows={"w": "sleep 9"},
    )
    agent = fleet.create(spec)
    assert (agent.state, agent.branch, agent.labels) == ("RUNNING", "mngr/one", {"k": "v"})
    created = fleet.create_many(AgentSpec(address="w", command=["sleep", "1000"], count=2))
    assert [result.agent.name for result in created if not isinstance(result, Exception)] == ["w-1", "w-2"]
    with pytest.raises(MngrError, match="already an agent called 'one'"):
        fleet.create(AgentSpec(address="one", command=["true"]))
    assert sorted(view.name for view in fleet.list().agents) == ["one", "w-1", "w-2"]
    assert fleet.list_hosts()[0].agents == 3
    assert fleet.get(agent.id).name == "one"
    with pytest.raises(NotFound):
        fleet.get("nobody")

    work_dir = Path(agent.work_dir)
    commit = commit_file(work_dir, "done.txt", "done\n")
    (work_dir / "dirty.txt").write_text("x")
    (listed, *_) = fleet.add_git_state(fleet.list().agents)
    assert (listed.unpulled, listed.dirty) == (1, True)
    assert b"+done" in fleet.diff("one") and b"dirty" not in fleet.diff("one", committed=True, options=("--stat",))
    pulled = fleet.pull("one", merge=True)
    assert (pulled.commit, pulled.commits, pulled.merged) == (commit, 1, True)
    assert fleet.pull_path("one", "dirty.txt", "here.txt") == str(mngr.repo / "here.txt")
    assert fleet.push_path("here.txt", "one", "there/") == str(work_dir / "there/here.txt")
    (mngr.repo / "here.txt").unlink()
    commit_file(mngr.repo, "more.txt")
    assert fleet.push("one", stash=True).how == "fast_forward"

    executed, missing = fleet.exec(["one", "nobody"], ["sh", "-c", "echo $A; exit 3"])
    assert (executed.extra["exit_code"], executed.extra["stdout"], missing.ok) == (3, "b\n", False)
    assert fleet.exec_attached("one", ["sh", "-c", "echo here; exit 4"]) == 4 and capfd.readouterr().out == "here\n"
    assert (
        fleet.build_attach_argv("one")[0] == "tmux" and fleet.get_connect_variables("one")["MNGR_AGENT_NAME"] == "one"
    )
    assert [outcome.ok for outcome in fleet.stop(["one", "nobody"], grace=0.2)] == [True, False]
    assert fleet.get("one").state == "STOPPED"
    assert fleet.start(["one"])[0].ok and fleet.get("one").state == "RUNNING"
    assert fleet.rename("w-1", "first").name == "first"
    assert fleet.label(["first"], {"a": "1"})[0].extra["labels"] == {"a": "1"}
    assert fleet.limit(["first"], LimitChanges(lifetime=9000.0))[0].extra["lifetime"] == 9000.0

    assert fleet.init(dry_run=True) is not None
    path = fleet.set_setting("stop.grace", "1s", "project")
    assert path == fleet.get_settings_path("project") == str(mngr.repo / ".mngr/settings.toml")
    new_fleet = Noting(mngr.home, mngr.repo)
    assert new_fleet.get_setting("stop.grace").value == "1s"
    assert any(setting.key == "stop.grace" for setting in new_fleet.list_settings())
    fleet.unset_setting("stop.grace", "project")
    assert "user" in fleet.list_settings_paths()
    assert isinstance(fleet.list_plugins(), list) and fleet.doctor()
    assert fleet._called | new_fleet._called == WORK


def test_methods_for_conversations_and_the_trash(fleet: Noting, mngr: MngrProgram) -> None:
    script = '["wait", {"write": {"path": "x.txt", "content": "x"}}, {"reply": "written"}]'
    fleet.create(AgentSpec(address="p", kind="player", command=[script]))
    assert fleet.wait(["p"], "WAITING", timeout=20)[0].ok
    assert fleet.get_next_waiting().name == "p"
    (sent,) = fleet.message(["p"], "first", wait=True)
    assert sent.extra["delivered"] is True
    (sent,) = fleet.message(["p"], "second", wait=True)
    assert sent.ok
    assert [entry.text for entry in fleet.transcript("p") if entry.role == "user"] == ["first", "second"]
    assert "written" in fleet.capture("p").text
    assert "created" in [event.type for event in fleet.events(["p"])]
    assert fleet.explain("p") is not None
    assert [row.group for row in fleet.usage()] == ["p"]
    assert fleet.add_usage([fleet.get("p")])[0].usage is not None

    snapshot = fleet.create_snapshot("p", "kept")
    assert [item.name for item in fleet.list_snapshots()] == ["kept"] == [snapshot.name]
    assert fleet.restore_snapshot("kept", "again", start=False).name == "again"
    with pytest.raises(MngrError, match="control character"):
        fleet.create_from_snapshot("kept", "third", "continue\x1b")
    created = fleet.create_from_snapshot("kept", "third", "continue")
    assert created.agent.name == "third" and created.message is not None and created.message.ok
    assert [entry.text for entry in fleet.transcript("third") if entry.role == "user"][-1] == "continue"
    assert fleet.clone("p", "twin", start=False).name == "twin"
    assert fleet.destroy_snapshots(["kept"])[0].ok and fleet.list_snapshots() == []
    assert [outcome.ok for outcome in fleet.destroy(["p", "again", "third", "twin"], force=True)] == [True] * 4
    assert sorted(trashed.name for trashed in fleet.list_trash()) == ["again", "p", "third", "twin"]
    assert fleet.undestroy(["p"], new_name="back")[0].ok
    restored = fleet.get("back")
    assert run_git(Path(restored.work_dir), "status", "--porcelain") == "?? x.txt"
    clean_room = fleet.create(
        AgentSpec(address="room", command=["true"], transfer="mirror", labels={"role": "clean-room"})
    )
    run_git(mngr.repo, "commit", "-q", "--allow-empty", "-m", "later")
    fleet.send_commit("room", str(mngr.repo), run_git(mngr.repo, "rev-parse", "HEAD"))
    assert run_git(Path(clean_room.work_dir), "log", "-1", "--format=%s", "refs/mngr/given") == "later"
    assert [outcome.ok for outcome in fleet.discard_clean_rooms(["room", "back"])] == [True, False]
    assert all(outcome.ok for outcome in fleet.gc(dry_run=True))
    fleet.watch().close()
    assert fleet._called == METHODS - WORK - HOSTS | {"create", "create_many", "get"}


def test_every_method_has_a_docstring_of_one_line() -> None:
    for name in METHODS:
        method: Callable[..., object] = getattr(Fleet, name)
        assert method.__doc__ and "\n" not in method.__doc__, name


def test_the_caller_chooses_the_home_and_the_project(
    mngr: MngrProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNGR_HOME", str(tmp_path / "from-env"))
    assert Fleet().context.home.root == str(tmp_path / "from-env")
    assert Fleet("relative").context.home.root == os.path.join(os.getcwd(), "relative")
    assert Fleet(cwd=str(mngr.repo)).context.cwd == str(mngr.repo)


def test_methods_for_other_hosts(fleet: Noting, farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNGR__PROVIDERS__SSH__CONFIG", str(farm.config))
    agent = fleet.create(AgentSpec(address="one@h1", command=["sleep", "1000"]))
    moved = fleet.migrate("one", "@h2")
    assert (moved.id, moved.host, moved.state) == (agent.id, "h2", "RUNNING")
    assert {row.host: row.agents for row in fleet.list_hosts()} == {"local": 0, "h1": 0, "h2": 1}
    assert "one.mngr" in [entry.alias for entry in fleet.list_ssh_entries()]
    assert "Host one.mngr" in fleet.ssh_config()
    assert "Host one.mngr" in Path(fleet.write_ssh_config()).read_text()
    with pytest.raises(NotFound, match="nobody"):
        fleet.pipe("nobody")  # test_pipe.py tests an existing agent.
    assert fleet.trash_agents_and_destroy_host("docker", "gone", ("run", "x")) == []  # The host is gone already.
    assert fleet._called == HOSTS | {"create", "create_many", "get", "list_hosts"}
