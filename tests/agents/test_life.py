"""Tests an agent's life as a state machine: after any sequence of commands, `list` is right and no work is lost."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mngr import AgentSpec, Fleet
from mngr.base.errors import MngrError
from tests.conftest import IS_FULL_SCALE, kill_tmux_servers, run_git

NAMES = ("ann", "bob")


class Life(RuleBasedStateMachine):
    """Two names, every command that changes an agent's life, and a model of the expected state."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="mngr-life-"))
        self.state: dict[str, str] = {}  # name -> RUNNING | STOPPED
        self.work: dict[str, list[str]] = {}  # name -> the lines of its file
        self.buried: dict[str, list[str]] = {}  # name -> the same, of its newest entry in the trash
        self.serial = 0

    @initialize()
    def begin(self) -> None:
        """Create a repository and one agent with uncommitted work."""
        repo = self.place / "repo"
        repo.mkdir()
        run_git(repo, "init", "-q", "-b", "main")
        run_git(repo, "config", "user.name", "Test")
        run_git(repo, "config", "user.email", "test@example.invalid")
        (repo / "file").write_text("base\n")
        run_git(repo, "add", "-A")
        run_git(repo, "commit", "-q", "-m", "first")
        self.repo = repo
        self.fleet = Fleet(str(self.place / "home"), cwd=str(repo))
        self.create("ann")
        self.change("ann", committed=False)

    def teardown(self) -> None:
        kill_tmux_servers(self.place)
        shutil.rmtree(self.place, ignore_errors=True)

    @rule(name=st.sampled_from(NAMES))
    def create(self, name: str) -> None:
        if name in self.state or run_git(self.repo, "branch", "--list", f"mngr/{name}"):
            with pytest.raises(MngrError):
                self.fleet.create(AgentSpec(address=name, command=["sleep", "1000"]))
            return
        self.fleet.create(AgentSpec(address=name, command=["sleep", "1000"]))
        self.state[name], self.work[name] = "RUNNING", ["base"]

    @precondition(lambda self: bool(self.state))
    @rule(data=st.data(), committed=st.booleans())
    def write(self, data: st.DataObject, committed: bool) -> None:
        self.change(data.draw(st.sampled_from(sorted(self.state))), committed)

    def change(self, name: str, committed: bool) -> None:
        self.serial += 1
        self.work[name].append(f"line {self.serial}")
        work_dir = Path(self.fleet.get(name).work_dir)
        (work_dir / "file").write_text("\n".join(self.work[name]) + "\n")
        if committed:
            run_git(work_dir, "commit", "-q", "-a", "-m", f"work {self.serial}")

    @precondition(lambda self: bool(self.state))
    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.state)))
        (outcome,) = self.fleet.stop([name])
        assert outcome.ok
        self.state[name] = "STOPPED"

    @precondition(lambda self: bool(self.state))
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.state)))
        (outcome,) = self.fleet.start([name])
        assert outcome.ok
        self.state[name] = "RUNNING"

    @precondition(lambda self: bool(self.state))
    @rule(data=st.data(), force=st.sampled_from([True, True, True, False]))
    def destroy(self, data: st.DataObject, force: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.state)))
        (outcome,) = self.fleet.destroy([name], force=force)
        assert outcome.ok == (force or self.state[name] == "STOPPED")
        if outcome.ok:
            del self.state[name]
            self.buried[name] = self.work.pop(name)

    @precondition(lambda self: bool(set(self.buried) - set(self.state)))
    @rule(data=st.data())
    def undestroy(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(set(self.buried) - set(self.state))))
        newest = [trashed for trashed in self.fleet.list_trash() if trashed.name == name][-1]
        (outcome,) = self.fleet.undestroy([newest.id])
        assert outcome.ok
        self.state[name], self.work[name] = "STOPPED", self.buried.pop(name)

    @precondition(lambda self: bool(self.buried))
    @rule()
    def clean(self) -> None:
        assert all(outcome.ok for outcome in self.fleet.gc())

    @invariant()
    def list_agrees_with_the_model(self) -> None:
        if not hasattr(self, "fleet"):
            return
        agents = {agent.name: agent for agent in self.fleet.list().agents}
        assert {name: agent.state for name, agent in agents.items()} == self.state
        for name, lines in self.work.items():
            assert (Path(agents[name].work_dir) / "file").read_text().split("\n")[:-1] == lines
        worktree_count = run_git(self.repo, "worktree", "list", "--porcelain").count("worktree ") - 1
        assert worktree_count == len(self.state) == len(os.listdir(self.place / "home" / "names") if self.state else [])


Life.TestCase.settings = settings(
    max_examples=60 if IS_FULL_SCALE else 6,
    stateful_step_count=25 if IS_FULL_SCALE else 20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestLife = Life.TestCase
