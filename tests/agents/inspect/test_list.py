"""`mngr list`: who there is, in which state, by whose word; and that one bad record harms nothing else."""

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


def test_a_home_that_does_not_exist_is_not_made(mngr: MngrProgram) -> None:
    assert mngr.run_json("list") == {"v": 1, "agents": [], "errors": []}
    ran = mngr("list")
    assert (ran.out, ran.err) == ("", "no agents; make one: mngr create NAME -- COMMAND\n")
    mngr("list", "--hosts")
    assert not mngr.home.exists() and not Path(mngr.env["HOME"], ".mngr").exists()


def test_the_fields_of_an_agent(mngr: MngrProgram) -> None:
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


def test_a_process_gone_without_a_trace_is_lost_and_start_resumes_it(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    wrapper = int(mngr.run_tmux("list-panes", "-a", "-F", "#{pane_pid}"))
    child = mngr.get_agent("foo")["pid"]
    os.kill(wrapper, signal.SIGKILL)
    agent = wait_for(lambda: (a := mngr.get_agent("foo"))["state"] == "FAILED" and a)
    assert (agent["state_reason"], agent["state_source"], agent["exit_code"]) == ("lost", "process", None)
    mngr("start", "foo")
    assert mngr.get_agent("foo")["state"] == "RUNNING"
    wait_for(lambda: not Path(f"/proc/{child}").exists())


def test_a_dead_tmux_server_leaves_its_agents_lost(mngr: MngrProgram) -> None:
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


def names(mngr: MngrProgram, *words: str) -> list[str]:
    return mngr("list", "--format", "{name}", *words).out.split()


def test_agents_are_chosen_sorted_and_shown(three: MngrProgram) -> None:
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
        assert names(three, *words) == expected.split(), words


def test_output_in_every_form(three: MngrProgram) -> None:
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
        (("--hosts", "--state", "DONE"), "--state has no meaning"),
    ],
)
def test_wrong_questions(mngr: MngrProgram, words: tuple[str, ...], said: str) -> None:
    ran = mngr("list", *words, code=2)
    assert said in ran.err and "Hint:" in ran.err and not mngr.home.exists()


@pytest.mark.parametrize("mode", ["worktree", "mirror"])
def test_git_tells_what_is_dirty_and_not_pulled(mngr: MngrProgram, mode: str) -> None:
    mngr("create", "foo", "--transfer", mode, *RUN)
    mngr("create", "plain", "--transfer", "copy", *RUN)

    def seen(*words: str) -> list[tuple[Any, Any]]:
        return [(a["unpulled"], a["dirty"]) for a in mngr.run_json("list", *words)["agents"]]

    assert seen("--git") == [(0, False), (None, None)]
    work = mngr.get_work_dir("foo")
    commit_file(work, "one.txt")
    (work / "two.txt").write_text("2")
    assert seen("--git") == seen("--fields", "unpulled,dirty") == [(1, True), (None, None)]
    assert seen() == [(None, None), (None, None)]
    assert names(mngr, "--filter", "unpulled > 0") == ["foo"] == names(mngr, "--filter", "dirty == true")
    assert mngr("list", "--format", "{unpulled}", "--label", "x").out == ""
    assert mngr("list", "--format", "{name}:{unpulled}").out == "foo:1\nplain:\n"
    mngr("pull", "foo", "--merge")
    assert seen("--git") == [(0, True), (None, None)]
    index = Path(run_git(work, "rev-parse", "--path-format=absolute", "--git-path", "index"))
    before = index.stat().st_mtime_ns
    os.utime(work / "README.md")
    mngr("list", "--git")
    assert index.stat().st_mtime_ns == before  # the agent may hold the lock


# ---- damage


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def change(**fields: Any) -> Any:
    def act(path: Path) -> None:
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))

    return act


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE = {
    "truncated": truncated,
    "empty": lambda path: path.write_bytes(b""),
    "missing": lambda path: path.unlink(),
    "binary": lambda path: path.write_bytes(b"\0\xff\n\0" * 50),
    "nested": lambda path: path.write_text("[" * 100000),
    "another shape": lambda path: path.write_text("[1]"),
    "another's": change(id="a-000000000000"),
    "newer": change(v=2),
    "no name": change(name=7),
    "no time": change(created_at="yesterday"),
    "a time of another type": change(created_at=7),
    "a kind that is a list": change(kind=["command"]),
    "labels of another type": change(labels={"a": {"b": "c"}}),
    "an owner of another type": change(phase="creating", owner="me"),
    "limits of another type": change(idle_timeout="long"),
    "missing field": lambda path: path.write_text('{"v": 1}'),
    "pipe": fifo,
    "directory": directory,
    "link to nothing ending": lambda path: (path.unlink(), path.symlink_to("/dev/zero")),
}


def test_a_damaged_record_is_an_unknown_row_and_harms_nothing_else(mngr: MngrProgram) -> None:
    mngr("create", "good", *RUN)
    mngr("create", "w", "--count", "4", *RUN)
    ids = [mngr.get_agent(f"w-{n}")["id"] for n in (1, 2, 3, 4)]
    good = mngr.get_agent("good")
    whole = {agent_id: (mngr.home / "agents" / agent_id / "agent.json").read_text() for agent_id in ids}
    kinds = iter(DAMAGE.items())
    for chunk in iter(lambda: [kind for _, kind in zip(ids, kinds, strict=False)], []):
        for agent_id, (_, damage) in zip(ids, chunk, strict=False):
            path = mngr.home / "agents" / agent_id / "agent.json"
            if path.is_dir():
                path.rmdir()
            path.unlink(missing_ok=True)
            path.write_text(whole[agent_id])
            damage(path)
        rows = {a["id"]: a for a in mngr.list_agents()}
        for agent_id, (what, _) in zip(ids, chunk, strict=False):
            assert rows[agent_id]["state"] == "UNKNOWN", what
            assert rows[agent_id]["state_reason"].startswith("damaged record: "), what
        assert rows[good["id"]]["state"] == "RUNNING"
        assert "UNKNOWN (damaged record" in mngr("list").out
        assert mngr("list", "--sort", "created_at", "--git").out.count("\n") == 6
    mngr("exec", "good", "--", "true")
    assert "is damaged" in mngr("stop", ids[0], code=1).err
    assert "is damaged" in mngr("rename", ids[0], "x", code=1).err


def test_what_an_agent_writes_about_itself_cannot_break_the_list(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    mngr("create", "good", *RUN)
    where = mngr.get_agent_dir("foo")
    for name, text in (
        ("proc", "²"), ("proc", "9" * 5000), ("proc", "\0"), ("status", '{"state":"WAITING","reason":7,"at":"2026-99-99T99:99:99.999Z"}'),
        ("status", '{"state":"WAITING","reason":"\\u001b[31mred\\n\\u0007","at":1e300}'), ("status", '{"state":["x"]}'), ("status", "[" * 100000),
        ("exit", '{"code":"x","at":"y"}'), ("exit", '{"code":0,"at":-1e400}'), ("stopped", '{"at":"z","reason":{"a":1}}'),
        ("stopped", "\0\0\npane x agent y %1 1 0 0 0"),
    ):  # fmt: skip
        (where / name).write_text(text)
        assert mngr.get_agent("good")["state"] == "RUNNING"
        out = mngr("list", "--fields", "name,state,state_since,activity_at,pid,exit_code").out
        assert out.count("\n") == 3 and "\x1b" not in out and "\x07" not in out, (name, text)
        if name != "proc":
            (where / name).unlink()
    for name in ("status", "exit", "stopped", "proc"):
        (where / name).unlink(missing_ok=True)
        os.mkfifo(where / name)
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

    def row() -> dict[str, Any]:
        assert watching.stdout is not None
        return dict(json.loads(watching.stdout.readline()))

    assert row() == {"v": 1, "name": "first", "state": "RUNNING"}
    mngr("create", "second", *RUN)
    while (seen := row())["name"] == "first" or seen["state"] == "STARTING":
        pass
    assert seen == {"v": 1, "name": "second", "state": "RUNNING"}
    mngr("stop", "second")
    while (seen := row()) != {"v": 1, "name": "second", "state": "STOPPED"}:
        pass
    mngr("destroy", "second")
    while (seen := row()) != {"v": 1, "name": "second", "state": "GONE"}:
        pass
    watching.send_signal(signal.SIGINT)
    assert watching.wait(10) == 130
    assert watching.stderr is not None and "Traceback" not in watching.stderr.read()


def test_ids_keep_to_the_format_asked_for(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    agent_id = mngr.get_agent("foo")["id"]
    assert mngr.run_json("list", "--ids")["agents"] == [{"id": agent_id}]
    assert mngr("list", "--ids").out == agent_id + "\n"


def test_a_template_without_a_field_is_refused(mngr: MngrProgram) -> None:
    assert "--format cannot be '{name'" in mngr("list", "--format", "{name", code=2).err


def test_no_state_is_older_than_its_agent(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "true")
    agent = wait_for(lambda: mngr.get_agent("foo") if mngr.get_agent("foo")["state"] == "DONE" else None)
    assert agent["state_since"] >= agent["created_at"]


def test_what_python_made_of_sources_is_nobodys_uncommitted_work(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--transfer", "mirror", *RUN)
    made = mngr.get_work_dir("foo") / "tests dir/__pycache__"
    made.mkdir(parents=True)
    (made / "test_x.cpython-311.pyc").touch()
    assert mngr.run_json("list", "--git")["agents"][0]["dirty"] is False
    (made.parent / "notes.txt").touch()
    assert mngr.run_json("list", "--git")["agents"][0]["dirty"] is True
