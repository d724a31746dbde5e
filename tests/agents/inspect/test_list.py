"""Tests `mngr list`: the agents, their states and the sources of these; a damaged record affects no other agent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import BIN_DIR, MngrProgram, run_git, wait_for
from tests.support.repos import commit_file

RUN = ("--", "sleep", "1000")


def test_list_does_not_create_a_missing_home(mngr: MngrProgram) -> None:
    assert mngr.run_json("list") == {"v": 1, "agents": [], "errors": []}
    result = mngr("list")
    assert (result.out, result.err) == ("", "there are no agents; create one: mngr create NAME claude\n")
    mngr("list", "--hosts")
    assert not mngr.home.exists() and not Path(mngr.env["HOME"], ".mngr").exists()


def test_list_shows_all_fields_of_an_agent(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--label", "team=red", *RUN)
    agent = mngr.get_agent("foo")
    assert (
        list(agent)
        == (
            "id name kind state state_reason state_source state_since parked_until host provider host_state project work_dir"
            " branch base created_at activity_at labels pid exit_code usage unpulled dirty"
        ).split()
    )
    fixed = {
        key: agent[key] for key in ("kind", "state", "state_reason", "state_source", "host", "provider", "host_state")
    }
    assert list(fixed.values()) == ["command", "RUNNING", None, "process", "local", "local", "RUNNING"]
    assert (agent["unpulled"], agent["dirty"], agent["exit_code"], agent["usage"]) == (None, None, None, None)
    assert agent["created_at"] <= agent["activity_at"] and agent["created_at"].endswith("Z")


def test_exit_codes_become_states(mngr: MngrProgram) -> None:
    mngr("create", "ok", "--", "true")
    mngr("create", "bad", "--", "exit 7;")
    mngr("create", "shot", "--", "kill -9 $$;")
    wait_for(lambda: {a["state"] for a in mngr.list_agents()} == {"DONE", "FAILED"})
    rows = {
        a["name"]: (a["state"], a["state_reason"], a["exit_code"], a["pid"], a["state_source"])
        for a in mngr.list_agents()
    }
    assert rows == {
        "ok": ("DONE", None, 0, None, "exit"),
        "bad": ("FAILED", "exit 7", 7, None, "exit"),
        "shot": ("FAILED", "exit 137", 137, None, "exit"),
    }
    assert all(a["state_since"] for a in mngr.list_agents())


def test_an_agent_whose_wrapper_was_killed_is_lost_and_can_start_again(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    wrapper = int(mngr.run_tmux("list-panes", "-a", "-F", "#{pane_pid}"))
    child = mngr.get_agent("foo")["pid"]
    os.kill(wrapper, signal.SIGKILL)
    agent = wait_for(lambda: (a := mngr.get_agent("foo"))["state"] == "FAILED" and a)
    assert (agent["state_reason"], agent["state_source"], agent["exit_code"]) == ("lost", "process", None)
    mngr("start", "foo")
    assert mngr.get_agent("foo")["state"] == "RUNNING"
    wait_for(lambda: not Path(f"/proc/{child}").exists())


def test_agents_are_lost_when_the_tmux_server_is_killed(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    mngr("create", "done", "--", "true")
    wait_for(lambda: mngr.get_agent("done")["state"] == "DONE")
    os.kill(int(mngr.run_tmux("display-message", "-p", "#{pid}")), signal.SIGKILL)
    agent = wait_for(lambda: (a := mngr.get_agent("foo"))["state"] == "FAILED" and a)
    assert agent["state_reason"] == "lost"
    assert mngr.get_agent("done")["state"] == "DONE"
    mngr("start", "foo")
    assert mngr.get_agent("foo")["state"] == "RUNNING"


# ---- choosing


@pytest.fixture
def three(mngr: MngrProgram) -> MngrProgram:
    mngr("create", "alpha", "--label", "team=red", "--label", "n=2", *RUN)
    mngr("create", "beta", "--label", "team=blue", "--label", "n=10", "--", "true")
    mngr("create", "gamma", "--transfer", "copy", *RUN)
    wait_for(lambda: mngr.get_agent("beta")["state"] == "DONE")
    return mngr


def list_names(mngr: MngrProgram, *words: str) -> list[str]:
    return mngr("list", "--format", "{name}", *words).out.split()


def test_list_filters_and_sorts_agents(three: MngrProgram) -> None:
    for words, expected in (
        ((), "alpha beta gamma"),
        (("--state", "running"), "alpha gamma"),
        (("--state", "DONE", "--state", "STOPPED"), "beta"),
        (("--state", "done,running"), "alpha beta gamma"),
        (("--label", "team"), "alpha beta"),
        (("--label", "team=red"), "alpha"),
        (("--label", "team", "--label", "n=10"), "beta"),
        (("--label", "team=green"), ""),
        (("--project", "repo"), "alpha beta gamma"),
        (("--project", "other"), ""),
        (("--host", "local", "--provider", "local"), "alpha beta gamma"),
        (("--host", "elsewhere"), ""),
        (("--filter", "labels.team == red or state == DONE"), "alpha beta"),
        (("--filter", "not (labels.n > 5)"), "alpha gamma"),
        (("--filter", "branch ~ ^mngr/", "--state", "RUNNING"), "alpha"),
        (("--sort", "-name"), "gamma beta alpha"),
        (("--sort", "labels.n"), "gamma beta alpha"),
        (("--sort", "state"), "beta alpha gamma"),
    ):
        assert list_names(three, *words) == expected.split(), words


def test_list_in_every_output_format(three: MngrProgram) -> None:
    rows = [json.loads(line) for line in three("list", "--format", "jsonl").out.splitlines()]
    assert [(row["v"], row["name"]) for row in rows] == [(1, "alpha"), (1, "beta"), (1, "gamma")]
    assert three.run_json("list", "--fields", "name,labels.team,pid", "--state", "DONE")["agents"] == [
        {"name": "beta", "labels.team": "blue", "pid": None}
    ]
    assert three("list", "--ids").out.split() == [row["id"] for row in rows]
    table = [line.split() for line in three("list", "--fields", "name,state,labels").out.splitlines()]
    assert table == [
        ["NAME", "STATE", "LABELS"], ["alpha", "RUNNING", "team=red,n=2"], ["beta", "DONE", "team=blue,n=10"], ["gamma", "RUNNING", "-"],
    ]  # fmt: skip
    head, first, *_ = three("ls").out.splitlines()
    assert head.split() == ["NAME", "STATE", "KIND", "HOST", "PROJECT", "BRANCH", "ACTIVE"]
    assert first.split()[:6] == ["alpha", "RUNNING", "command", "local", "repo", "mngr/alpha"]
    assert (
        three("list", "--format", r"{name}\t{labels.team}\t{labels.none}|{pid}", "--state", "DONE").out
        == "beta\tblue\t|\n"
    )
    assert three.run_json("list", "--hosts")["hosts"] == [
        {
            "host": "local",
            "provider": "local",
            "state": "RUNNING",
            "agents": 3,
            "ends_at": None,
            "error": None,
        }
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--state", "RUNING"), "did you mean 'RUNNING'"),
        (("--fields", "nam"), "did you mean 'name'"),
        (("--sort", "-stat"), "did you mean 'state'"),
        (("--format", "{nam}"), "did you mean 'name'"),
        (("--format", "yaml"), "--format cannot be 'yaml'"),
        (("--filter", "state ="), "--filter"),
        (("--hosts", "--state", "DONE"), "--state and --hosts cannot be combined"),
    ],
)
def test_list_rejects_invalid_options_with_a_hint(mngr: MngrProgram, words: tuple[str, ...], said: str) -> None:
    result = mngr("list", *words, code=2)
    assert said in result.err and "Hint:" in result.err and not mngr.home.exists()


@pytest.mark.parametrize("mode", ["worktree", "mirror"])
def test_git_option_shows_dirty_and_unpulled_work(mngr: MngrProgram, mode: str) -> None:
    mngr("create", "foo", "--transfer", mode, *RUN)
    mngr("create", "plain", "--transfer", "copy", *RUN)

    def list_git_state(*words: str) -> list[tuple[Any, Any]]:
        return [(a["unpulled"], a["dirty"]) for a in mngr.run_json("list", *words)["agents"]]

    assert list_git_state("--git") == [(0, False), (None, None)]
    work_dir = mngr.get_work_dir("foo")
    commit_file(work_dir, "one.txt")
    (work_dir / "two.txt").write_text("2")
    assert list_git_state("--git") == list_git_state("--fields", "unpulled,dirty") == [(1, True), (None, None)]
    assert list_git_state() == [(None, None), (None, None)]
    assert list_names(mngr, "--filter", "unpulled > 0") == ["foo"] == list_names(mngr, "--filter", "dirty == true")
    assert mngr("list", "--format", "{unpulled}", "--label", "x").out == ""
    assert mngr("list", "--format", "{name}:{unpulled}").out == "foo:1\nplain:\n"
    mngr("pull", "foo", "--merge")
    assert list_git_state("--git") == [(0, True), (None, None)]
    index = Path(run_git(work_dir, "rev-parse", "--path-format=absolute", "--git-path", "index"))
    before = index.stat().st_mtime_ns
    os.utime(work_dir / "README.md")
    mngr("list", "--git")
    assert index.stat().st_mtime_ns == before  # The agent may hold the lock of the index.


# ---- damage


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def change_fields(**fields: Any) -> Any:
    def act(path: Path) -> None:
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))

    return act


def replace_by_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replace_by_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE = {
    "truncated": truncate,
    "empty": lambda path: path.write_bytes(b""),
    "missing": lambda path: path.unlink(),
    "binary": lambda path: path.write_bytes(b"\0\xff\n\0" * 50),
    "nested": lambda path: path.write_text("[" * 100000),
    "another shape": lambda path: path.write_text("[1]"),
    "another's": change_fields(id="a-000000000000"),
    "no version": change_fields(v=None),
    "no name": change_fields(name=7),
    "no time": change_fields(created_at="yesterday"),
    "a time of another type": change_fields(created_at=7),
    "a kind that is a list": change_fields(kind=["command"]),
    "labels of another type": change_fields(labels={"a": {"b": "c"}}),
    "an owner of another type": change_fields(phase="creating", owner="me"),
    "limits of another type": change_fields(idle_timeout="long"),
    "missing field": lambda path: path.write_text('{"v": 1}'),
    "pipe": replace_by_fifo,
    "directory": replace_by_directory,
    "link to nothing ending": lambda path: (path.unlink(), path.symlink_to("/dev/zero")),
}


def test_a_damaged_record_is_an_unknown_row_and_affects_no_other_agent(mngr: MngrProgram) -> None:
    mngr("create", "good", *RUN)
    mngr("create", "w", "--count", "4", *RUN)
    ids = [mngr.get_agent(f"w-{n}")["id"] for n in (1, 2, 3, 4)]
    good = mngr.get_agent("good")
    original_records = {agent_id: (mngr.home / "agents" / agent_id / "agent.json").read_text() for agent_id in ids}
    kinds = iter(DAMAGE.items())
    for chunk in iter(lambda: [kind for _, kind in zip(ids, kinds, strict=False)], []):
        for agent_id, (_, damage) in zip(ids, chunk, strict=False):
            path = mngr.home / "agents" / agent_id / "agent.json"
            if path.is_dir():
                path.rmdir()
            path.unlink(missing_ok=True)
            path.write_text(original_records[agent_id])
            damage(path)
        rows = {a["id"]: a for a in mngr.list_agents()}
        for agent_id, (description, _) in zip(ids, chunk, strict=False):
            assert rows[agent_id]["state"] == "UNKNOWN", description
            assert rows[agent_id]["state_reason"].startswith("damaged record: "), description
        assert rows[good["id"]]["state"] == "RUNNING"
        assert "UNKNOWN (damaged record" in mngr("list").out
        assert mngr("list", "--sort", "created_at", "--git").out.count("\n") == 6
    mngr("exec", "good", "--", "true")
    assert "is damaged" in mngr("stop", ids[0], code=1).err
    assert "is damaged" in mngr("rename", ids[0], "x", code=1).err


def test_a_record_of_a_newer_mngr_is_not_called_damaged_and_no_hint_destroys_the_agent(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    agent_id = mngr.get_agent("foo")["id"]
    change_fields(v=2)(mngr.home / "agents" / agent_id / "agent.json")
    (agent,) = mngr.list_agents()
    assert (agent["state"], agent["state_reason"]) == ("UNKNOWN", "a newer mngr wrote its record (version 2)")
    for words in (("stop",), ("destroy",), ("capture",)):
        err = mngr(*words, agent_id, code=1).err
        assert "a newer mngr wrote its record (version 2)" in err and "pipx install --force ./mngr" in err
        assert "damaged" not in err and "destroy --force" not in err
    explained = mngr("explain", agent_id).out
    assert "pipx install --force ./mngr" in explained and "destroy --force" not in explained


def test_files_that_an_agent_writes_cannot_break_the_list(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    mngr("create", "good", *RUN)
    agent_dir = mngr.get_agent_dir("foo")
    for name, text in (
        ("proc", "²"), ("proc", "9" * 5000), ("proc", "\0"), ("status", '{"state":"WAITING","reason":7,"at":"2026-99-99T99:99:99.999Z"}'),
        ("status", '{"state":"WAITING","reason":"\\u001b[31mred\\n\\u0007","at":1e300}'), ("status", '{"state":["x"]}'), ("status", "[" * 100000),
        ("exit", '{"code":"x","at":"y"}'), ("exit", '{"code":0,"at":-1e400}'), ("stopped", '{"at":"z","reason":{"a":1}}'),
        ("stopped", "\0\0\npane x agent y %1 1 0 0 0"),
    ):  # fmt: skip
        (agent_dir / name).write_text(text)
        assert mngr.get_agent("good")["state"] == "RUNNING"
        out = mngr("list", "--fields", "name,state,state_since,activity_at,pid,exit_code").out
        assert out.count("\n") == 3 and "\x1b" not in out and "\x07" not in out, (name, text)
        if name != "proc":
            (agent_dir / name).unlink()
    for name in ("status", "exit", "stopped", "proc"):
        (agent_dir / name).unlink(missing_ok=True)
        os.mkfifo(agent_dir / name)
    assert mngr.get_agent("good")["state"] == "RUNNING"


# ---- watching


@pytest.fixture
def watching(mngr: MngrProgram) -> Iterator[subprocess.Popen[str]]:
    mngr("create", "first", *RUN)
    argv = [str(BIN_DIR / "mngr"), "list", "--watch", "--format", "jsonl", "--fields", "name,state"]
    process = subprocess.Popen(
        argv, cwd=mngr.repo, env=mngr.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.communicate()


def test_watch_shows_every_change_until_interrupted(mngr: MngrProgram, watching: subprocess.Popen[str]) -> None:
    assert watching.stdout is not None

    def read_row() -> dict[str, Any]:
        assert watching.stdout is not None
        return dict(json.loads(watching.stdout.readline()))

    assert read_row() == {"v": 1, "name": "first", "state": "RUNNING"}
    mngr("create", "second", *RUN)
    while (shown := read_row())["name"] == "first" or shown["state"] == "STARTING":
        pass
    assert shown == {"v": 1, "name": "second", "state": "RUNNING"}
    mngr("stop", "second")
    while (shown := read_row()) != {"v": 1, "name": "second", "state": "STOPPED"}:
        pass
    mngr("destroy", "second")
    while (shown := read_row()) != {"v": 1, "name": "second", "state": "GONE"}:
        pass
    watching.send_signal(signal.SIGINT)
    assert watching.wait(10) == 130
    assert watching.stderr is not None and "Traceback" not in watching.stderr.read()


def test_ids_follow_the_output_format(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    agent_id = mngr.get_agent("foo")["id"]
    assert mngr.run_json("list", "--ids")["agents"] == [{"id": agent_id}]
    assert mngr("list", "--ids").out == agent_id + "\n"


def test_an_unclosed_format_template_is_rejected(mngr: MngrProgram) -> None:
    assert "--format cannot be '{name'" in mngr("list", "--format", "{name", code=2).err


def test_no_state_is_older_than_its_agent(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "true")
    agent = wait_for(lambda: mngr.get_agent("foo") if mngr.get_agent("foo")["state"] == "DONE" else None)
    assert agent["state_since"] >= agent["created_at"]


def test_python_cache_files_are_not_uncommitted_work(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--transfer", "mirror", *RUN)
    cache_dir = mngr.get_work_dir("foo") / "tests dir/__pycache__"
    cache_dir.mkdir(parents=True)
    (cache_dir / "test_x.cpython-311.pyc").touch()
    assert mngr.run_json("list", "--git")["agents"][0]["dirty"] is False
    (cache_dir.parent / "notes.txt").touch()
    assert mngr.run_json("list", "--git")["agents"][0]["dirty"] is True
