"""Tests of `mngr gc` on remote hosts: it finishes interrupted commands and deletes nothing when in doubt."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.conftest import MngrProgram, run_git
from tests.host.scripts.test_save_and_restore import age
from tests.support.hosts.sshd import Farm

pytestmark = pytest.mark.hosts

RUN = ("--", "sleep", "1000")
OWNER = {"pid": 1, "start": "none", "boot": "another machine's", "at": 0}


@pytest.fixture
def client(mngr: MngrProgram, farm: Farm) -> MngrProgram:
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
    return mngr


def home(farm: Farm, name: str = "h1") -> Path:
    """Return mngr's home on the host."""
    return farm.home(name) / ".mngr"


def change_record(farm: Farm, agent_id: str, **values: object) -> None:
    """Change fields in the agent's record on the host."""
    path = home(farm) / "agents" / agent_id / "agent.json"
    record = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps(record, separators=(",", ":")) + "\n")


def run_gc(client: MngrProgram, *words: str) -> list[tuple[str, str, str]]:
    """Run `mngr gc` and return (what, name, action) for each result."""
    results = client.run_json("gc", *words)["results"]
    return sorted((row["what"], row["name"], row["action"]) for row in results)


def test_gc_does_not_touch_for_an_hour_what_another_client_is_working_on(client: MngrProgram, farm: Farm) -> None:
    client("create", "foo@h1", *RUN)
    agent = client.get_agent("foo")
    for phase in ("creating", "destroying"):
        change_record(farm, agent["id"], phase=phase, owner={**OWNER, "at": int(time.time()) - 60})
        assert run_gc(client) == []
    change_record(farm, agent["id"], phase="destroying", owner=OWNER)
    assert run_gc(client) == [("interrupted destroy", "foo", "cleaned")]
    assert client.list_agents() == [] and not Path(agent["work_dir"]).exists()
    client("undestroy", "foo")


def test_gc_deletes_a_half_created_agent_of_another_client_with_its_work_dir(client: MngrProgram, farm: Farm) -> None:
    client("create", "foo@h1", "--", "true")
    agent = client.get_agent("foo")
    for name in ("proc", "exit"):
        (home(farm) / "agents" / agent["id"] / name).unlink(missing_ok=True)
    change_record(farm, agent["id"], phase="creating", owner=OWNER)
    (client.home / "names" / "foo").unlink()  # Only the remote host knows its name.
    assert run_gc(client) == [("interrupted create", "foo", "cleaned")]
    assert [list((home(farm) / folder).iterdir()) for folder in ("agents", "names", "work")] == [[], [], []]


def test_gc_cleans_up_names_sessions_and_leftovers_on_a_host(client: MngrProgram, farm: Farm) -> None:
    client("create", "foo@h1", *RUN)
    agent_id = client.get_agent("foo")["id"]
    remote_home = home(farm)
    socket = os.readlink(remote_home / "tmux.socket")
    farm.ssh("h1", "tmux", "-S", socket, "new-session", "-d", "-s", "stray", "sleep 1000")
    farm.ssh("h1", "tmux", "-S", socket, "set-option", "-t", "=stray:", "@mngr_id", "a-0123456789ab")
    farm.ssh("h1", "tmux", "-S", socket, "new-session", "-d", "-s", "mine", "sleep 1000")
    (remote_home / "names" / "gone").symlink_to("a-0123456789ab")
    (remote_home / "names" / "old").symlink_to(agent_id)
    (remote_home / "agents" / "a-0123456789ac.gone" / "x").mkdir(parents=True)
    (remote_home / "work" / "whose").mkdir()
    (client.home / "names" / "lost").symlink_to("a-0123456789ab@h1.ssh")
    (client.home / "names" / "before").symlink_to(f"{agent_id}@h1.ssh")
    (client.home / "names" / "far").symlink_to("a-0123456789ab@h9.ssh")
    for folder in (remote_home / "names", remote_home / "agents", client.home / "names"):
        for path in folder.iterdir():
            age(path, 0.01)
    expected = [
        ("dangling name", "h1:gone"),
        ("dangling name", "lost"),
        ("interrupted command", "h1:agents/a-0123456789ac.gone"),
        ("old name", "before"),
        ("old name", "h1:old"),
        ("stray session", "h1:stray"),
        ("unknown directory", f"h1:{remote_home}/work/whose"),
    ]
    planned = [(*row, "left" if row[0] == "unknown directory" else "would clean") for row in expected]
    assert run_gc(client, "--dry-run") == sorted(planned)
    run_gc(client)
    assert [row[0] for row in run_gc(client)] == ["unknown directory"]
    assert sorted(path.name for path in (remote_home / "names").iterdir()) == ["foo"]
    assert sorted(path.name for path in (client.home / "names").glob("[a-z]*")) == ["far", "foo"]
    assert (remote_home / "work" / "whose").is_dir() and client.get_agent("foo")["state"] == "RUNNING"
    sessions = farm.ssh("h1", "tmux", "-S", socket, "list-sessions", "-F", "'#{session_name}'").stdout.split()
    assert sorted(sessions) == ["foo", "mine"]


def test_gc_reports_an_unreachable_host_and_deletes_nothing_of_it(client: MngrProgram, farm: Farm) -> None:
    client("create", "foo@h1", *RUN)
    client("create", "bar@h2", *RUN)
    (client.home / "names" / "lost").symlink_to("a-0123456789ab@h1.ssh")
    for path in (client.home / "names").glob("[a-z]*"):
        age(path, 0.01)
    (client.home / "trash" / "a-0123456789ab.part").mkdir()
    age(client.home / "trash" / "a-0123456789ab.part", 1)
    farm.cut("h1")
    result = client("gc")
    assert "mngr could not check h1" in result.err and "cleaned: interrupted save" in result.out
    assert run_gc(client) == [("host", "@h1.ssh", "unreachable")]
    assert sorted(path.name for path in (client.home / "names").glob("[a-z]*")) == ["bar", "foo", "lost"]
    farm.mend("h1")
    assert run_gc(client) == [("dangling name", "lost", "cleaned")]


def test_gc_forgets_a_host_without_agents_after_a_day(client: MngrProgram, farm: Farm) -> None:
    client("create", "foo@h1", "--", "true")
    client("destroy", "--force", "foo")
    known = client.home / "hosts" / "ssh" / "h1.json"
    assert run_gc(client) == [] and known.exists()
    age(known, 2)
    farm.cut("h1")
    assert run_gc(client) == [("host", "@h1.ssh", "unreachable")] and known.exists()
    farm.mend("h1")
    assert run_gc(client) == [("unused host", "@h1.ssh", "cleaned")] and not known.exists()
    client("undestroy", "foo")  # This registers the host again.
    age(known, 2)
    assert run_gc(client) == [] and known.exists()


def test_gc_deletes_cached_repositories_that_are_long_unused(client: MngrProgram, farm: Farm) -> None:
    client("create", "foo@h1", "--", "true")
    (cache,) = (home(farm) / "cache" / "sources").iterdir()
    age(cache, 40)
    client("create", "bar@h1", "--", "true")  # This agent uses the cached copy.
    assert run_gc(client) == []
    age(cache, 40)
    assert run_gc(client) == [("unused source", f"h1:{cache.name}", "cleaned")]
    assert not cache.exists() and run_git(Path(client.get_agent("foo")["work_dir"]), "fsck") == ""
    client("create", "baz@h1", "--", "true")
    client("create", "url", "--from", f"file://{client.repo}", "--transfer", "mirror", "--", "true")
    (repo,) = (path for path in (client.home / "cache" / "repos").iterdir() if path.suffix == ".git")
    age(repo, 40)
    assert run_gc(client) == []  # An agent was created from it.
    client("destroy", "url")
    assert run_gc(client) == []  # The agent in the trash was created from it, too.
    (trash_dir,) = (client.home / "trash").iterdir()
    meta = json.loads((trash_dir / "meta.json").read_text())
    (trash_dir / "meta.json").write_text(json.dumps({**meta, "record": {**meta["record"], "source": None}}))
    assert run_gc(client) == [("unused repository", repo.name, "cleaned")] and not repo.exists()


def test_gc_deletes_a_staging_home_that_a_killed_command_left(client: MngrProgram) -> None:
    client("create", "foo", "--", "true")
    stage = client.home / "cache" / "stage" / "77-aabbccdd"
    (stage / "work" / "foo").mkdir(parents=True)
    (stage / "work" / "foo").chmod(0o500)
    (stage / "owner").write_text(
        json.dumps({**OWNER, "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip()})
    )
    assert run_gc(client) == [("interrupted save", "77-aabbccdd", "cleaned")] and not stage.exists()
