"""What every engine that makes machines gets from `RentedProvider`, seen with one whose machines are directories."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from mngr.base.paths import Home
from mngr.host import store
from tests.conftest import MngrProgram, kill_tmux_servers, wait_for
from tests.providers.shared.toy import ToyProvider

pytestmark = pytest.mark.hosts

RUN = ("--", "sleep", "1000")


@pytest.fixture
def root(mngr: MngrProgram, tmp_path: Path) -> Path:
    """Where the machines are; mngr has the provider as a plugin."""
    root, site = tmp_path / "machines", tmp_path / "site"
    root.mkdir()
    (site / "toy-1.dist-info").mkdir(parents=True)
    (site / "toy-1.dist-info/entry_points.txt").write_text("[mngr]\ntoy = tests.providers.shared.toy\n")
    mngr.env["PYTHONPATH"] = f"{site}:{os.getcwd()}"
    mngr.env["MNGR__PROVIDERS__TOY__ROOT"] = str(root)
    return root


def machines(root: Path) -> dict[str, bool]:
    """Every machine and whether it runs, by the engine's own word."""
    return {one.name.partition(".")[0]: (one / "on").exists() for one in root.iterdir() if one.is_dir()}


def lose(machine: Path) -> None:
    """It is gone with all that runs on it."""
    kill_tmux_servers(machine)
    shutil.rmtree(machine)


def kill_in(mngr: MngrProgram, root: Path, what: str, *words: str) -> None:
    """Run a command that is killed in the middle of what it asks of the engine."""
    (root / "faults").write_text(f"die in {what}")
    assert mngr.run_bytes(*words).returncode == -9


def kill_after(mngr: MngrProgram, root: Path, what: str, *words: str) -> None:
    """The same, when the engine has done it."""
    (root / "faults").write_text(f"die after {what}")
    assert mngr.run_bytes(*words).returncode == -9


def rows(mngr: MngrProgram) -> list[tuple[str, str]]:
    return [(row["what"], row["action"]) for row in mngr.run_json("gc")["results"]]


def test_what_is_cut_off_is_finished_or_taken_back(mngr: MngrProgram, root: Path) -> None:
    kill_in(mngr, root, "make", "create", "foo@.toy", *RUN)
    assert len(machines(root)) == 1
    assert rows(mngr) == [("interrupted create", "cleaned")] and machines(root) == {}
    mngr("create", "foo@box.toy", *RUN)
    kill_in(mngr, root, "stop", "stop", "@box.toy")
    assert rows(mngr) == [("interrupted stop", "cleaned")] and machines(root) == {"box": False}
    kill_in(mngr, root, "start", "start", "@box.toy")
    assert mngr("exec", "foo", "--", "true", code=6).err.startswith("Error: the host box is stopped")
    assert rows(mngr) == [("interrupted start", "cleaned")] and machines(root) == {"box": True}
    assert mngr("exec", "foo", "--", "echo", "fine").out == "fine\n"
    kill_in(mngr, root, "remove", "destroy", "--force", "@box.toy")
    assert rows(mngr) == [("interrupted destroy", "cleaned")] and machines(root) == {}
    assert rows(mngr) == [] and mngr.list_agents() == []
    mngr("undestroy", "foo")
    assert machines(root) == {"box": True}


def test_a_host_goes_at_once_with_the_agent_that_it_was_made_for_and_that_was_cut_off(
    mngr: MngrProgram, root: Path
) -> None:
    mngr("create", "foo@.toy", *RUN)
    (record,) = root.glob("*/**/agents/a-*/agent.json")
    owner = {**store.describe_this_process(), "start": "another"}
    half = {**json.loads(record.read_text()), "phase": "creating", "owner": owner}
    record.write_text(json.dumps(half, separators=(",", ":")) + "\n")
    assert rows(mngr) == [("interrupted create", "cleaned"), ("host without agents", "cleaned")]
    assert machines(root) == {} and rows(mngr) == []


def test_a_host_that_somebody_is_just_making_agents_for_stays(mngr: MngrProgram, root: Path) -> None:
    mngr("create", "here", *RUN)
    provider = ToyProvider("toy", Home(str(mngr.home)), {"root": str(root)})
    made = provider.create(None, {}).name
    old = time.time() - 3600
    note = mngr.home / f"hosts/toy/{made}.json"
    os.utime(note, (old, old))
    assert rows(mngr) == []  # we live
    known = json.loads(note.read_text())
    note.write_text(json.dumps({**known, "maker": {**known["maker"], "start": "another"}}))
    assert rows(mngr) == [("host without agents", "cleaned")] and machines(root) == {}


def test_what_is_made_again_after_it_was_cut_off_is_nothing_to_take_back(mngr: MngrProgram, root: Path) -> None:
    kill_in(mngr, root, "make", "create", "foo@box.toy", *RUN)
    (half,) = root.iterdir()
    kill_after(mngr, root, "make", "create", "foo@box.toy", *RUN)
    assert not half.exists() and len(machines(root)) == 1
    mngr("create", "foo@box.toy", *RUN)
    notes = mngr.home / "hosts/toy"
    made = json.loads((notes / "box.json").read_text())
    assert rows(mngr) == [] and mngr("exec", "foo", "--", "echo", "fine").out == "fine\n"
    owner = {"pid": 1, "start": "0", "boot": "another"}
    (notes / "box.making").write_text(json.dumps({**made, "owner": owner}))  # of who was cut off at the end
    (notes / "other.making").touch()  # of who lost power
    assert rows(mngr) == [("interrupted create", "cleaned")] * 2 and rows(mngr) == []
    (notes / "box.making").write_text(json.dumps({**made, "owner": owner}))
    mngr("create", "bar@box.toy", *RUN)
    assert rows(mngr) == [] and {agent["name"] for agent in mngr.list_agents()} == {"foo", "bar"}


def test_who_cleans_up_looks_again_before(mngr: MngrProgram, root: Path) -> None:
    mngr("create", "foo@box.toy", *RUN)
    kill_in(mngr, root, "remove", "destroy", "--force", "@box.toy")
    provider = ToyProvider("toy", Home(str(mngr.home)), {"root": str(root)})
    (task,) = provider.list_leftovers()
    mngr("create", "bar@box.toy", *RUN)
    assert task.remove is not None
    task.remove()
    assert mngr("exec", "bar", "--", "echo", "fine").out == "fine\n" and rows(mngr) == []


def test_what_this_home_does_not_know_is_named_and_left(mngr: MngrProgram, root: Path) -> None:
    mngr("create", "other@two.toy", *RUN)
    mngr("create", "foo@box.toy", *RUN)
    (mngr.home / "hosts/toy/box.json").unlink()
    assert rows(mngr) == [("unknown directory", "left")]
    assert "rm -r " in mngr("gc").err and machines(root) == {"box": True, "two": True}
    mngr("create", "bar@box.toy", *RUN)  # taken up again by its name
    assert {agent["name"] for agent in mngr.list_agents()} == {"other", "foo", "bar"}
    assert mngr.run_json("gc")["results"] == []


def test_of_a_host_that_is_gone_all_that_is_known_is_told_and_can_be_forgotten(mngr: MngrProgram, root: Path) -> None:
    mngr("create", "foo@.toy", "--label", "team=red", *RUN)
    mngr("create", "done@two.toy", "--", "true")
    mngr("create", "bar@two.toy", *RUN)
    wait_for(lambda: mngr.get_agent("done")["state"] == "DONE")
    for one in root.iterdir():
        lose(one)
    shown = mngr.run_json("list")
    assert {a["name"]: (a["state"], a["state_reason"], a["host_state"]) for a in shown["agents"]} == {
        "foo": ("FAILED", "host gone", "GONE"),
        "bar": ("FAILED", "host gone", "GONE"),
        "done": ("DONE", None, "GONE"),
    }
    assert shown["errors"] == []
    states = {row["host"]: row["state"] for row in mngr.run_json("list", "--hosts")["hosts"]}
    assert states["two"] == "GONE"
    assert "mngr destroy @two.toy" in mngr("list").err
    gone = mngr("exec", "foo", "--", "true", code=6).err
    assert "is gone: its directory was removed" in gone and "is lost; forget it" in gone
    assert "only what was pulled is left" in mngr("destroy", "foo").err
    assert [a["name"] for a in mngr.list_agents()] == ["done", "bar"]
    assert ("host that is gone", "cleaned") in rows(mngr)
    assert mngr.list_agents() == [] and rows(mngr) == []
    graves = {g["name"]: g["problem"] for g in mngr.run_json("undestroy", "--list")["graves"]}
    assert sorted(graves) == ["bar", "done", "foo"] and "the host two is gone" in graves["bar"]
    assert "cannot be brought back: the host" in mngr("undestroy", "bar", code=1).err
    mngr("create", "foo@two.toy", *RUN)
    lose(next(root.iterdir()))
    assert mngr("destroy", "@two.toy").out == "destroyed @two.toy\n"
    assert mngr.run_json("list", "--hosts")["hosts"] == [
        row for row in mngr.run_json("list", "--hosts")["hosts"] if row["host"] == "local"
    ]


def test_an_engine_without_room_is_asked_again(mngr: MngrProgram, root: Path) -> None:
    (root / "faults").write_text("full")
    ran = mngr("create", "foo@.toy", *RUN)
    assert "there is no room; waiting for toy" in ran.err and len(machines(root)) == 1


def test_what_is_asked_of_a_host_is_checked_before_it_is_made(mngr: MngrProgram, root: Path) -> None:
    for words, what in (
        (("foo@.toy", "-b", "siez=1"), "no option 'siez'"),
        (("foo@.toy", "-b", "root=/"), "no option 'root'"),
        (("foo@.toy", "-b", "size=absurd"), "no machine is that large"),
        (("foo@.toy", "-S", "providers.toy.rot=x"), "no setting 'rot'"),
        (("foo@.toy", "--network", "off"), "--network has no meaning"),
    ):
        ran = mngr("create", *words, *RUN, code=2)
        assert what in ran.err and "\nHint: " in ran.err
    assert machines(root) == {} and not (mngr.home / "hosts" / "toy").exists()
    mngr("create", "foo@box.toy", "-b", "size=1", "-b", "env.A=b", "--network", "on", *RUN)
    assert "there already" in mngr("create", "bar@box.toy", "-b", "size=2", *RUN, code=2).err


def test_one_that_comes_back_is_as_it_was_and_a_new_one_of_its_name_as_is_asked_now(
    mngr: MngrProgram, root: Path
) -> None:
    def asked() -> object:
        return json.loads((mngr.home / "hosts/toy/box.json").read_text())["options"]

    mngr("create", "foo@box.toy", "-b", "size=1", *RUN)
    mngr("destroy", "--force", "@box.toy")
    mngr("undestroy", "foo")
    assert asked() == {"size": "1"}
    mngr("destroy", "--force", "@box.toy")
    mngr("create", "bar@box.toy", *RUN)
    assert asked() == {}


@pytest.mark.sampled(3)
def test_a_new_host_can_be_made_from_what_was_kept_of_another(mngr: MngrProgram, root: Path) -> None:
    mngr("create", "foo@box.toy", *RUN)
    mngr("exec", "foo", "--", "sh", "-c", "echo built >~/tool")
    mngr("snapshot", "create", "@box.toy", "kept")
    mngr("create", "bar@.toy", "-b", "snapshot=kept", *RUN)
    assert mngr("exec", "bar", "--", "sh", "-c", "cat ~/tool").out == "built\n"
    assert "no snapshot 'other'" in mngr("create", "baz@.toy", "-b", "snapshot=other", *RUN, code=1).err
    mngr("snapshot", "destroy", "kept")
    assert (root / "dropped-box").exists()
