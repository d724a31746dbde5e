"""The behaviour that OnDemandProvider gives every engine, tested with an engine whose machines are directories."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from mngr.base.paths import Home
from mngr.host import record_store
from tests.conftest import MngrProgram, kill_tmux_servers, wait_for
from tests.providers.shared.toy import ToyProvider

pytestmark = pytest.mark.hosts

RUN = ("--", "sleep", "1000")


@pytest.fixture
def root(mngr: MngrProgram, tmp_path: Path) -> Path:
    """The directory of the machines; mngr has their provider as a plugin."""
    root, site = tmp_path / "machines", tmp_path / "site"
    root.mkdir()
    (site / "toy-1.dist-info").mkdir(parents=True)
    (site / "toy-1.dist-info/entry_points.txt").write_text("[mngr]\ntoy = tests.providers.shared.toy\n")
    mngr.env["PYTHONPATH"] = f"{site}:{os.getcwd()}"
    mngr.env["MNGR__PROVIDERS__TOY__ROOT"] = str(root)
    return root


def machines(root: Path) -> dict[str, bool]:
    """Return every machine and whether it runs, as the engine itself stores it."""
    return {path.name.partition(".")[0]: (path / "on").exists() for path in root.iterdir() if path.is_dir()}


def lose(machine: Path) -> None:
    """Remove a machine with everything that runs on it."""
    kill_tmux_servers(machine)
    shutil.rmtree(machine)


def run_and_kill_during(mngr: MngrProgram, root: Path, engine_call: str, *words: str) -> None:
    """Run a command that is killed in the middle of a call of the engine."""
    (root / "faults").write_text(f"die in {engine_call}")
    assert mngr.run_bytes(*words).returncode == -9


def run_and_kill_after(mngr: MngrProgram, root: Path, engine_call: str, *words: str) -> None:
    """Run a command that is killed right after a call of the engine."""
    (root / "faults").write_text(f"die after {engine_call}")
    assert mngr.run_bytes(*words).returncode == -9


def run_gc(mngr: MngrProgram) -> list[tuple[str, str]]:
    return [(row["what"], row["action"]) for row in mngr.run_json("gc")["results"]]


def test_gc_finishes_or_undoes_interrupted_host_operations(mngr: MngrProgram, root: Path) -> None:
    run_and_kill_during(mngr, root, "make", "create", "foo@.toy", *RUN)
    assert len(machines(root)) == 1
    assert run_gc(mngr) == [("interrupted create", "cleaned")] and machines(root) == {}
    mngr("create", "foo@box.toy", *RUN)
    run_and_kill_during(mngr, root, "stop", "stop", "@box.toy")
    assert run_gc(mngr) == [("interrupted stop", "cleaned")] and machines(root) == {"box": False}
    run_and_kill_during(mngr, root, "start", "start", "@box.toy")
    assert mngr("exec", "foo", "--", "true", code=6).err.startswith("Error: the host box is stopped")
    assert run_gc(mngr) == [("interrupted start", "cleaned")] and machines(root) == {"box": True}
    assert mngr("exec", "foo", "--", "echo", "fine").out == "fine\n"
    run_and_kill_during(mngr, root, "remove", "destroy", "--force", "@box.toy")
    assert run_gc(mngr) == [("interrupted destroy", "cleaned")] and machines(root) == {}
    assert run_gc(mngr) == [] and mngr.list_agents() == []
    mngr("undestroy", "foo")
    assert machines(root) == {"box": True}


def test_gc_removes_a_host_with_its_only_agent_whose_create_was_interrupted(mngr: MngrProgram, root: Path) -> None:
    mngr("create", "foo@.toy", *RUN)
    (record,) = root.glob("*/**/agents/a-*/agent.json")
    owner = {**record_store.describe_this_process(), "start": "another"}
    half = {**json.loads(record.read_text()), "phase": "creating", "owner": owner}
    record.write_text(json.dumps(half, separators=(",", ":")) + "\n")
    assert run_gc(mngr) == [("interrupted create", "cleaned"), ("host without agents", "cleaned")]
    assert machines(root) == {} and run_gc(mngr) == []


def test_gc_keeps_a_host_without_agents_while_its_creator_runs(mngr: MngrProgram, root: Path) -> None:
    mngr("create", "here", *RUN)
    provider = ToyProvider("toy", Home(str(mngr.home)), {"root": str(root)})
    host = provider.create(None, {}).name
    old = time.time() - 3600
    note = mngr.home / f"hosts/toy/{host}.json"
    os.utime(note, (old, old))
    assert run_gc(mngr) == []  # this process created the host and runs
    facts = json.loads(note.read_text())
    note.write_text(json.dumps({**facts, "maker": {**facts["maker"], "start": "another"}}))
    assert run_gc(mngr) == [("host without agents", "cleaned")] and machines(root) == {}


def test_gc_keeps_a_host_that_was_created_again_after_an_interruption(mngr: MngrProgram, root: Path) -> None:
    run_and_kill_during(mngr, root, "make", "create", "foo@box.toy", *RUN)
    (incomplete_machine,) = root.iterdir()
    run_and_kill_after(mngr, root, "make", "create", "foo@box.toy", *RUN)
    assert not incomplete_machine.exists() and len(machines(root)) == 1
    mngr("create", "foo@box.toy", *RUN)
    notes = mngr.home / "hosts/toy"
    facts = json.loads((notes / "box.json").read_text())
    assert run_gc(mngr) == [] and mngr("exec", "foo", "--", "echo", "fine").out == "fine\n"
    owner = {"pid": 1, "start": "0", "boot": "another"}
    (notes / "box.making").write_text(json.dumps({**facts, "owner": owner}))  # of a command that was killed at its end
    (notes / "other.making").touch()  # of a command that lost power
    assert run_gc(mngr) == [("interrupted create", "cleaned")] * 2 and run_gc(mngr) == []
    (notes / "box.making").write_text(json.dumps({**facts, "owner": owner}))
    mngr("create", "bar@box.toy", *RUN)
    assert run_gc(mngr) == [] and {agent["name"] for agent in mngr.list_agents()} == {"foo", "bar"}


def test_a_cleanup_does_not_remove_a_host_that_was_created_again(mngr: MngrProgram, root: Path) -> None:
    mngr("create", "foo@box.toy", *RUN)
    run_and_kill_during(mngr, root, "remove", "destroy", "--force", "@box.toy")
    provider = ToyProvider("toy", Home(str(mngr.home)), {"root": str(root)})
    (leftover,) = provider.list_leftovers()
    mngr("create", "bar@box.toy", *RUN)
    assert leftover.remove is not None
    leftover.remove()
    assert mngr("exec", "bar", "--", "echo", "fine").out == "fine\n" and run_gc(mngr) == []


def test_gc_reports_an_unknown_machine_and_keeps_it(mngr: MngrProgram, root: Path) -> None:
    mngr("create", "other@two.toy", *RUN)
    mngr("create", "foo@box.toy", *RUN)
    (mngr.home / "hosts/toy/box.json").unlink()
    assert run_gc(mngr) == [("unknown directory", "left")]
    assert "rm -r " in mngr("gc").err and machines(root) == {"box": True, "two": True}
    mngr("create", "bar@box.toy", *RUN)  # the existing machine is used again
    assert {agent["name"] for agent in mngr.list_agents()} == {"other", "foo", "bar"}
    assert mngr.run_json("gc")["results"] == []


def test_agents_of_a_lost_host_are_listed_as_failed_and_can_be_destroyed(mngr: MngrProgram, root: Path) -> None:
    mngr("create", "foo@.toy", "--label", "team=red", *RUN)
    mngr("create", "done@two.toy", "--", "true")
    mngr("create", "bar@two.toy", *RUN)
    wait_for(lambda: mngr.get_agent("done")["state"] == "DONE")
    for machine in root.iterdir():
        lose(machine)
    shown = mngr.run_json("list")
    assert {
        agent["name"]: (agent["state"], agent["state_reason"], agent["host_state"]) for agent in shown["agents"]
    } == {
        "foo": ("FAILED", "host gone", "GONE"),
        "bar": ("FAILED", "host gone", "GONE"),
        "done": ("DONE", None, "GONE"),
    }
    assert shown["errors"] == []
    states = {row["host"]: row["state"] for row in mngr.run_json("list", "--hosts")["hosts"]}
    assert states["two"] == "GONE"
    assert "mngr destroy @two.toy" in mngr("list").err
    error = mngr("exec", "foo", "--", "true", code=6).err
    assert "is gone: its directory was removed" in error and "remove the host from the list: mngr destroy" in error
    assert "you have only the commits that you pulled" in mngr("destroy", "foo").err
    assert [agent["name"] for agent in mngr.list_agents()] == ["done", "bar"]
    assert ("lost host", "cleaned") in run_gc(mngr)
    assert mngr.list_agents() == [] and run_gc(mngr) == []
    trashed = {saved["name"]: saved["problem"] for saved in mngr.run_json("undestroy", "--list")["trash"]}
    assert sorted(trashed) == ["bar", "done", "foo"] and "the host two is gone" in trashed["bar"]
    assert "cannot be restored: the host" in mngr("undestroy", "bar", code=1).err
    mngr("create", "foo@two.toy", *RUN)
    lose(next(root.iterdir()))
    assert mngr("destroy", "@two.toy").out == "destroyed @two.toy\n"
    assert mngr.run_json("list", "--hosts")["hosts"] == [
        row for row in mngr.run_json("list", "--hosts")["hosts"] if row["host"] == "local"
    ]


def test_create_retries_while_the_engine_is_busy(mngr: MngrProgram, root: Path) -> None:
    (root / "faults").write_text("full")
    result = mngr("create", "foo@.toy", *RUN)
    assert "there is no room; waiting for toy" in result.err and len(machines(root)) == 1


def test_invalid_host_options_fail_before_a_host_is_created(mngr: MngrProgram, root: Path) -> None:
    for words, message in (
        (("foo@.toy", "-b", "siez=1"), "no option 'siez'"),
        (("foo@.toy", "-b", "root=/"), "no option 'root'"),
        (("foo@.toy", "-b", "size=absurd"), "no machine is that large"),
        (("foo@.toy", "-S", "providers.toy.rot=x"), "no setting 'rot'"),
        (("foo@.toy", "--network", "off"), "--network has no effect"),
    ):
        result = mngr("create", *words, *RUN, code=2)
        assert message in result.err and "\nHint: " in result.err
    assert machines(root) == {} and not (mngr.home / "hosts" / "toy").exists()
    mngr("create", "foo@box.toy", "-b", "size=1", "-b", "env.A=b", "--network", "on", *RUN)
    assert "already exists" in mngr("create", "bar@box.toy", "-b", "size=2", *RUN, code=2).err


def test_a_restored_host_keeps_its_options_and_a_new_one_of_its_name_does_not(mngr: MngrProgram, root: Path) -> None:
    def read_options() -> object:
        return json.loads((mngr.home / "hosts/toy/box.json").read_text()).get("options", {})

    mngr("create", "foo@box.toy", "-b", "size=1", *RUN)
    mngr("destroy", "--force", "@box.toy")
    mngr("undestroy", "foo")
    assert read_options() == {"size": "1"}
    mngr("destroy", "--force", "@box.toy")
    mngr("create", "bar@box.toy", *RUN)
    assert read_options() == {}


@pytest.mark.sampled(3)
def test_a_host_can_be_created_from_a_snapshot(mngr: MngrProgram, root: Path) -> None:
    mngr("create", "foo@box.toy", *RUN)
    mngr("exec", "foo", "--", "sh", "-c", "echo built >~/tool")
    mngr("snapshot", "create", "@box.toy", "kept")
    mngr("create", "bar@.toy", "-b", "snapshot=kept", *RUN)
    assert mngr("exec", "bar", "--", "sh", "-c", "cat ~/tool").out == "built\n"
    assert "no snapshot 'other'" in mngr("create", "baz@.toy", "-b", "snapshot=other", *RUN, code=1).err
    mngr("snapshot", "destroy", "kept")
    assert (root / "dropped-box").exists()
