"""Tests of `mngr migrate`, run as a program."""

from __future__ import annotations

from pathlib import Path

import pytest

from mngr.testkit.contract.lifecycle import INSPECT_SCRIPT, WORK_SCRIPT
from tests.conftest import MngrProgram, run_git
from tests.providers.docker.test_contract import settings
from tests.support.hosts.engines import Docker
from tests.support.hosts.sshd import Farm

pytestmark = pytest.mark.hosts

RUN = ("--", "sleep", "1000")


@pytest.fixture
def client(mngr: MngrProgram, farm: Farm) -> MngrProgram:
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
    return mngr


def test_a_running_agent_is_running_after_migrate_to_another_host(client: MngrProgram, farm: Farm) -> None:
    client("create", "foo", "--label", "team=red", "--", "sh", "-c", "echo begun >>begun; exec sleep 1000")
    (client.get_work_dir("foo") / "draft.txt").write_text("draft")
    before = client.get_agent("foo")
    result = client("migrate", "foo", "@h1")
    assert result.out == "foo is RUNNING on h1\n" and result.err == ""
    after = client.get_agent("foo")
    same = ("id", "name", "branch", "base", "created_at", "labels", "project", "kind")
    assert {key: after[key] for key in same} == {key: before[key] for key in same}
    assert (after["host"], after["provider"], after["state"]) == ("h1", "ssh", "RUNNING")
    work = Path(after["work_dir"])
    assert (work / "draft.txt").read_text() == "draft" and (work / "begun").read_text() == "begun\nbegun\n"
    assert not Path(before["work_dir"]).exists() and not list((client.home / "agents").iterdir())
    assert client.run_json("undestroy", "--list")["trash"] == []
    (agent,) = client.run_json("migrate", "foo", "foo@h2.ssh")["agents"]
    assert (agent["host"], agent["id"]) == ("h2", before["id"])
    client("stop", "foo")
    assert client("migrate", "foo", "@local").out == "foo is STOPPED on local\n"
    assert client.run_json("gc")["results"] == []


@pytest.mark.full
def test_migrate_between_providers_keeps_work_and_conversation(client: MngrProgram, docker_engine: Docker) -> None:
    client.env.update({**settings("docker"), **docker_engine.env})
    client("create", "foo@h1", "player", "--label", "team=red", "--env", "GIVEN=a 'b'")
    client("message", "foo", "-m", "hello", "--wait")
    client("exec", "foo", "--", "sh", "-ec", WORK_SCRIPT)
    inspect = ("exec", "foo", "--", "sh", "-ec", INSPECT_SCRIPT)
    before, agent = client(*inspect).out, client.get_agent("foo")
    for number, (address, provider) in enumerate(
        (("@.docker", "docker"), ("@local", "local"), ("@box.docker", "docker"))
    ):
        client("migrate", "foo", address)
        after = client.get_agent("foo")
        assert (after["id"], after["provider"], after["state"]) == (agent["id"], provider, "WAITING")
        assert client(*inspect).out == before
        assert client("exec", "foo", "--", "printenv", "GIVEN").out == "a 'b'\n"
        client("message", "foo", "-m", f"again {number}", "--wait")
        texts = [row["text"] for row in client.run_json("transcript", "foo")["transcript"]]
        assert texts[:2] == ["hello", "ok: hello"] and texts[-1] == f"ok: again {number}"
        assert client.run_json("gc")["results"] == []
    rows = {row["host"]: row["agents"] for row in client.run_json("list", "--hosts")["hosts"]}
    assert rows == {
        "local": 0,
        "h1": 0,
        "box": 1,
    }  # The container that was created for the agent is destroyed after the migrate.
    (client.repo / ".mngr").mkdir()
    (client.repo / ".mngr" / "settings.toml").write_text('[project]\nsetup = "exit 3"\n')
    client("trust", "--yes")
    assert "setup failed" in client("migrate", "foo", "@.docker", code=1).err
    assert "setup failed" in client("clone", "foo", "bar@.docker", code=1).err
    assert (client.get_agent("foo")["host"], client.get_agent("foo")["state"]) == ("box", "WAITING")
    assert {row["host"] for row in client.run_json("list", "--hosts")["hosts"]} == set(rows)
    (client.repo / ".mngr" / "settings.toml").unlink()
    client("clone", "foo", "bar@h2", "--no-start")
    assert client("exec", "bar", "--", "sh", "-ec", INSPECT_SCRIPT).out == before
    client("destroy", "--force", "foo", "bar")


def test_migrate_keeps_the_branch_with_unique_commits_in_the_source(client: MngrProgram) -> None:
    client("create", "foo", *RUN)
    work = client.get_work_dir("foo")
    (work / "a").write_text("a")
    run_git(work, "add", "-A")
    run_git(work, "commit", "-q", "-m", "mine")
    tip = run_git(work, "rev-parse", "HEAD")
    client("migrate", "foo", "@h1")
    assert (
        run_git(client.repo, "rev-parse", "mngr/foo") == tip
    )  # As with destroy, the branch stays because no other branch has the commit.
    client("pull", "foo")
    assert run_git(client.repo, "worktree", "list").count("\n") == 0


def test_a_migrate_to_an_invalid_or_unreachable_host_leaves_the_agent_running(client: MngrProgram, farm: Farm) -> None:
    client("create", "foo", *RUN)
    (client.get_work_dir("foo") / "draft.txt").write_text("draft")
    pid = client.get_agent("foo")["pid"]
    for words, code, message in (
        (("foo", "@local"), 1, "is already on local"),
        (("foo", "h1"), 2, "does not name a host"),
        (("foo", "bar@h1"), 2, "does not name a host"),
        (("foo", "@h1:x"), 2, "does not name a host"),
        (("nobody", "@h1"), 1, "there is no agent"),
    ):
        assert message in client("migrate", *words, code=code).err
    farm.cut("h1")
    assert client("migrate", "foo", "@h1", code=6).err.startswith("Error: h1 cannot be reached")
    assert client.get_agent("foo")["pid"] == pid  # The agent was never stopped.
    farm.mend("h1")


def test_a_migrate_whose_set_up_fails_returns_the_agent_to_its_host(client: MngrProgram, farm: Farm) -> None:
    tool = client.repo.parent / "only-here"
    client("create", "foo@h1", "--env", f"PATH={tool}:/usr/bin:/bin", *RUN)
    agent_id = client.get_agent("foo")["id"]
    (farm.home("h2") / ".mngr").mkdir()
    (farm.home("h2") / ".mngr" / "strange").write_text("another program's")
    assert "belongs to another program" in client("migrate", "foo", "@h2", code=1).err
    (farm.home("h2") / ".mngr" / "strange").unlink()
    (client.repo / ".mngr").mkdir()
    (client.repo / ".mngr" / "settings.toml").write_text('[project]\nsetup = "exit 3"\n')
    client("trust", "--yes")
    result = client("migrate", "foo", "@h2", code=1)
    assert "setup failed" in result.err
    agent = client.get_agent("foo")
    assert (agent["id"], agent["host"], agent["state"]) == (agent_id, "h1", "RUNNING")
    assert client.run_json("undestroy", "--list")["trash"] == [] and client.run_json("gc")["results"] == []
    assert [list((farm.home("h2") / ".mngr" / folder).iterdir()) for folder in ("agents", "names", "work")] == [
        [],
        [],
        [],
    ]


def test_a_sandboxed_agent_cannot_migrate_to_a_host_without_sandboxes(client: MngrProgram) -> None:
    client("create", "foo", "--sandbox", *RUN)
    assert "runs in a sandbox" in client("migrate", "foo", "@h1", code=1).err
    assert "runs in a sandbox" in client("clone", "foo", "bar@h1", code=1).err
    assert client.get_agent("foo")["state"] == "RUNNING"


def test_migrate_without_a_copy_needs_the_same_directory_on_the_target(
    client: MngrProgram, farm: Farm, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    client("create", "foo", "--from", str(plain), "--transfer", "none", *RUN)
    client("migrate", "foo", "@h1")  # The same path exists on h1.
    assert client.get_agent("foo")["work_dir"] == str(plain)
    plain.rename(tmp_path / "moved")
    assert "the work dir of foo no longer exists" in client("migrate", "foo", "@h2", code=1).err
    (tmp_path / "moved").rename(plain)
    assert client.get_agent("foo")["host"] == "h1"


def test_an_agent_without_network_cannot_migrate_to_another_kind_of_host(client: MngrProgram) -> None:
    client("create", "foo", "--network", "off", *RUN)
    error = client("migrate", "foo", "@h1", code=1).err
    assert "was created with --network off, and mngr cannot move this agent to ssh hosts" in error
    assert client.get_agent("foo")["state"] == "RUNNING"
