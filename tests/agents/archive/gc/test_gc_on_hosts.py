"""`mngr gc` on other hosts: what was interrupted is finished, what is old goes, and nothing is deleted on doubt."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.conftest import MngrProgram, run_git
from tests.host.scripts.test_saving import age
from tests.support.hosts.sshd import Farm

pytestmark = pytest.mark.hosts

RUN = ("--", "sleep", "1000")
OWNER = {"pid": 1, "start": "none", "boot": "another machine's", "at": 0}


@pytest.fixture
def client(mngr: MngrProgram, farm: Farm) -> MngrProgram:
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
    return mngr


def home(farm: Farm, name: str = "h1") -> Path:
    return farm.home(name) / ".mngr"


def change(farm: Farm, agent_id: str, **values: object) -> None:
    """Another record."""
    path = home(farm) / "agents" / agent_id / "agent.json"
    record = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps(record, separators=(",", ":")) + "\n")


def rows(client: MngrProgram, *words: str) -> list[tuple[str, str, str]]:
    found = client.run_json("gc", *words)["results"]
    return sorted((row["what"], row["name"], row["action"]) for row in found)


def test_what_another_client_is_at_work_on_is_not_touched_for_an_hour(client: MngrProgram, farm: Farm) -> None:
    client("create", "foo@h1", *RUN)
    agent = client.get_agent("foo")
    for phase in ("creating", "destroying"):
        change(farm, agent["id"], phase=phase, owner={**OWNER, "at": int(time.time()) - 60})
        assert rows(client) == []
    change(farm, agent["id"], phase="destroying", owner=OWNER)
    assert rows(client) == [("interrupted destroy", "foo", "cleaned")]
    assert client.list_agents() == [] and not Path(agent["work_dir"]).exists()
    client("undestroy", "foo")


def test_a_half_made_agent_of_another_client_goes_with_its_work_dir(client: MngrProgram, farm: Farm) -> None:
    client("create", "foo@h1", "--", "true")
    agent = client.get_agent("foo")
    for name in ("proc", "exit"):
        (home(farm) / "agents" / agent["id"] / name).unlink(missing_ok=True)
    change(farm, agent["id"], phase="creating", owner=OWNER)
    (client.home / "names" / "foo").unlink()  # it is known by name there only
    assert rows(client) == [("interrupted create", "foo", "cleaned")]
    assert [list((home(farm) / place).iterdir()) for place in ("agents", "names", "work")] == [[], [], []]


def test_names_sessions_and_leftovers(client: MngrProgram, farm: Farm) -> None:
    client("create", "foo@h1", *RUN)
    agent_id = client.get_agent("foo")["id"]
    there = home(farm)
    socket = os.readlink(there / "tmux.socket")
    farm.ssh("h1", "tmux", "-S", socket, "new-session", "-d", "-s", "stray", "sleep 1000")
    farm.ssh("h1", "tmux", "-S", socket, "set-option", "-t", "=stray:", "@mngr_id", "a-0123456789ab")
    farm.ssh("h1", "tmux", "-S", socket, "new-session", "-d", "-s", "mine", "sleep 1000")
    (there / "names" / "gone").symlink_to("a-0123456789ab")
    (there / "names" / "old").symlink_to(agent_id)
    (there / "agents" / "a-0123456789ac.gone" / "x").mkdir(parents=True)
    (there / "work" / "whose").mkdir()
    (client.home / "names" / "lost").symlink_to("a-0123456789ab@h1.ssh")
    (client.home / "names" / "before").symlink_to(f"{agent_id}@h1.ssh")
    (client.home / "names" / "far").symlink_to("a-0123456789ab@h9.ssh")
    for place in (there / "names", there / "agents", client.home / "names"):
        for path in place.iterdir():
            age(path, 0.01)
    expected = [
        ("dangling name", "h1:gone"),
        ("dangling name", "lost"),
        ("interrupted command", "h1:agents/a-0123456789ac.gone"),
        ("old name", "before"),
        ("old name", "h1:old"),
        ("stray session", "h1:stray"),
        ("unknown directory", f"h1:{there}/work/whose"),
    ]
    what = [(*row, "left" if row[0] == "unknown directory" else "would clean") for row in expected]
    assert rows(client, "--dry-run") == sorted(what)
    rows(client)
    assert [row[0] for row in rows(client)] == ["unknown directory"]
    assert sorted(path.name for path in (there / "names").iterdir()) == ["foo"]
    assert sorted(path.name for path in (client.home / "names").glob("[a-z]*")) == ["far", "foo"]
    assert (there / "work" / "whose").is_dir() and client.get_agent("foo")["state"] == "RUNNING"
    told = farm.ssh("h1", "tmux", "-S", socket, "list-sessions", "-F", "'#{session_name}'").stdout.split()
    assert sorted(told) == ["foo", "mine"]


def test_a_host_that_does_not_answer_is_a_row_and_nothing_of_it_is_deleted(client: MngrProgram, farm: Farm) -> None:
    client("create", "foo@h1", *RUN)
    client("create", "bar@h2", *RUN)
    (client.home / "names" / "lost").symlink_to("a-0123456789ab@h1.ssh")
    for path in (client.home / "names").glob("[a-z]*"):
        age(path, 0.01)
    (client.home / "graveyard" / "a-0123456789ab.part").mkdir()
    age(client.home / "graveyard" / "a-0123456789ab.part", 1)
    farm.cut("h1")
    ran = client("gc")
    assert "h1 was not looked at" in ran.err and "cleaned: interrupted save" in ran.out
    assert rows(client) == [("host", "@h1.ssh", "unreachable")]
    assert sorted(path.name for path in (client.home / "names").glob("[a-z]*")) == ["bar", "foo", "lost"]
    farm.mend("h1")
    assert rows(client) == [("dangling name", "lost", "cleaned")]


def test_a_host_without_agents_is_forgotten_after_a_day(client: MngrProgram, farm: Farm) -> None:
    client("create", "foo@h1", "--", "true")
    client("destroy", "--force", "foo")
    known = client.home / "hosts" / "ssh" / "h1.json"
    assert rows(client) == [] and known.exists()
    age(known, 2)
    farm.cut("h1")
    assert rows(client) == [("host", "@h1.ssh", "unreachable")] and known.exists()
    farm.mend("h1")
    assert rows(client) == [("unused host", "@h1.ssh", "cleaned")] and not known.exists()
    client("undestroy", "foo")  # it is made known again
    age(known, 2)
    assert rows(client) == [] and known.exists()


def test_copies_of_repositories_that_nobody_uses_go(client: MngrProgram, farm: Farm) -> None:
    client("create", "foo@h1", "--", "true")
    (cache,) = (home(farm) / "cache" / "sources").iterdir()
    age(cache, 40)
    client("create", "bar@h1", "--", "true")  # uses it
    assert rows(client) == []
    age(cache, 40)
    assert rows(client) == [("unused source", f"h1:{cache.name}", "cleaned")]
    assert not cache.exists() and run_git(Path(client.get_agent("foo")["work_dir"]), "fsck") == ""
    client("create", "baz@h1", "--", "true")
    client("create", "url", "--from", f"file://{client.repo}", "--transfer", "mirror", "--", "true")
    (repo,) = (path for path in (client.home / "cache" / "repos").iterdir() if path.suffix == ".git")
    age(repo, 40)
    assert rows(client) == []  # an agent was made from it
    client("destroy", "url")
    assert rows(client) == []  # and so was what is in the graveyard
    (grave,) = (client.home / "graveyard").iterdir()
    meta = json.loads((grave / "meta.json").read_text())
    (grave / "meta.json").write_text(json.dumps({**meta, "record": {**meta["record"], "source": None}}))
    assert rows(client) == [("unused repository", repo.name, "cleaned")] and not repo.exists()


def test_what_a_killed_command_left_here_goes(client: MngrProgram) -> None:
    client("create", "foo", "--", "true")
    stage = client.home / "cache" / "stage" / "77-aabbccdd"
    (stage / "work" / "foo").mkdir(parents=True)
    (stage / "work" / "foo").chmod(0o500)
    (stage / "owner").write_text(
        json.dumps({**OWNER, "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip()})
    )
    assert rows(client) == [("interrupted save", "77-aabbccdd", "cleaned")] and not stage.exists()
