"""Tests `mngr create` as a user runs it: the agents that run, their environment, and failures that leave nothing."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from pathlib import Path

import pytest

from mngr.base import names_and_addresses
from tests.conftest import BIN_DIR, IS_FULL_SCALE, MngrProgram, run_git, wait_for


def is_nothing_left(mngr: MngrProgram) -> bool:
    """True when no agent, worktree, branch, session, record or name is left. Asserts each of them."""
    assert mngr.list_agents() == []
    assert run_git(mngr.repo, "worktree", "list").count("\n") == 0
    assert run_git(mngr.repo, "branch", "--list", "mngr/*") == ""
    for folder in ("agents", "names", "work"):
        assert not (mngr.home / folder).exists() or list((mngr.home / folder).iterdir()) == []
    assert not (mngr.home / "tmux.socket").is_symlink() or mngr.run_tmux("list-sessions") == ""
    return True


def test_a_command_runs_in_its_own_worktree_on_its_own_branch(mngr: MngrProgram) -> None:
    output = mngr("create", "foo", "--", "sleep", "1000").out
    agent = mngr.get_agent("foo")
    assert output == f"foo runs in {agent['work_dir']} on mngr/foo\n"
    assert (agent["state"], agent["kind"], agent["branch"]) == ("RUNNING", "command", "mngr/foo")
    assert (agent["project"], agent["base"]) == ("repo", run_git(mngr.repo, "rev-parse", "HEAD"))
    assert run_git(mngr.get_work_dir("foo"), "rev-parse", "--abbrev-ref", "HEAD") == "mngr/foo"
    assert run_git(mngr.get_work_dir("foo"), "status", "--porcelain") == ""
    assert Path(f"/proc/{agent['pid']}/cmdline").read_bytes() == b"sleep\x001000\x00"


def test_a_command_that_does_not_exist_leaves_nothing(mngr: MngrProgram) -> None:
    result = mngr("create", "foo", "--", "no-such-program", code=1)
    assert "no-such-program: command not found" in result.err
    assert is_nothing_left(mngr)


@pytest.mark.parametrize("word", ["cd", "export", "if"])
def test_a_shell_builtin_is_not_a_command(mngr: MngrProgram, word: str) -> None:
    assert f"{word}: command not found" in mngr("create", "foo", "--", word, code=1).err
    assert is_nothing_left(mngr)


def test_create_prints_the_agent_as_json(mngr: MngrProgram) -> None:
    created = mngr.run_json("create", "foo", "--label", "team=red", "--", "sleep", "1000")
    assert created["v"] == 1
    (agent,) = created["agents"]
    listed = mngr.get_agent("foo")
    assert {k: v for k, v in agent.items() if not k.startswith(("state", "activity"))} == {
        k: v for k, v in listed.items() if not k.startswith(("state", "activity"))
    }
    assert agent["labels"] == {"team": "red"}


def test_the_process_runs_when_create_returns(mngr: MngrProgram) -> None:
    for number in range(5):
        pid = mngr.run_json("create", f"w{number}", "--", "sleep", "1000")["agents"][0]["pid"]
        assert Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x001000\x00"


def test_a_single_word_with_spaces_runs_as_a_shell_line(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", 'echo "$MNGR_AGENT_NAME $((40 + 2))" >out.log; sleep 1000')
    file = mngr.get_work_dir("foo") / "out.log"
    assert wait_for(lambda: file.exists() and file.read_text()) == "foo 42\n"


def test_arguments_reach_the_command_unchanged(mngr: MngrProgram) -> None:
    words = ["a b", "", "$HOME", "`id`", "'", '"', "\\", ";", "*", "é", "-x", "a\nb"]
    mngr("create", "foo", "--", "sh", "-c", 'printf "%s\\0" "$@" >args.log; sleep 1000', "sh", *words)
    file = mngr.get_work_dir("foo") / "args.log"
    assert wait_for(lambda: file.exists() and file.read_bytes()).decode().split("\0")[:-1] == words


def list_generated_names() -> list[str]:
    """Return all names that the generator can make."""
    return [
        f"{adjective}-{noun}" for adjective in names_and_addresses._ADJECTIVES for noun in names_and_addresses._NOUNS
    ]


def test_create_without_a_name_generates_one(mngr: MngrProgram) -> None:
    first, second = (mngr.run_json("create", "--", "sleep", "1000")["agents"][0] for _ in "12")
    assert first["name"] != second["name"]
    for agent in (first, second):
        adjective, _, animal = agent["name"].partition("-")
        assert adjective.isalpha() and animal.isalpha()
        assert agent["branch"] == f"mngr/{agent['name']}"


def test_a_generated_name_is_never_one_that_is_taken(mngr: MngrProgram) -> None:
    """With all names of the generator taken, mngr generates a longer one."""
    mngr("create", "first", "--", "sleep", "1000")
    agent_id = mngr.get_agent("first")["id"]
    program = "from mngr.base import names_and_addresses as names; print(*[f'{a}-{b}' for a in names._ADJECTIVES for b in names._NOUNS])"
    all_names = subprocess.run(
        [BIN_DIR / "python", "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    for name in all_names:
        (mngr.home / "names" / name).symlink_to(agent_id)
    assert mngr.run_json("create", "--", "sleep", "1000")["agents"][0]["name"] not in all_names


@pytest.mark.hosts
def test_a_generated_name_is_never_one_whose_branch_exists(mngr: MngrProgram) -> None:
    """The branch of a destroyed agent may remain. Here three of four names have one, and create still works."""
    head = run_git(mngr.repo, "rev-parse", "HEAD")
    taken = [name for number, name in enumerate(list_generated_names()) if number % 4]
    rows = "".join(f"create refs/heads/mngr/{name} {head}\n" for name in taken)
    subprocess.run(["git", "-C", str(mngr.repo), "update-ref", "--stdin"], input=rows, text=True, check=True)
    run_git(mngr.repo, "pack-refs", "--all")
    for _ in range(3):
        assert mngr.run_json("create", "--", "sleep", "1000")["agents"][0]["name"] not in taken


def test_count_creates_numbered_agents_in_order(mngr: MngrProgram) -> None:
    created = mngr.run_json("create", "w", "--count", "3", "--", "sleep", "1000")["agents"]
    assert [(a["name"], a["branch"]) for a in created] == [(f"w-{i}", f"mngr/w-{i}") for i in (1, 2, 3)]
    assert sorted(a["name"] for a in mngr.list_agents()) == ["w-1", "w-2", "w-3"]
    assert len({a["work_dir"] for a in created}) == 3


def test_count_with_a_taken_name_creates_no_agent(mngr: MngrProgram) -> None:
    mngr("create", "w-2", "--", "sleep", "1000")
    assert "'w-2'" in mngr("create", "w", "--count", "3", "--", "sleep", "1000", code=1).err
    assert [a["name"] for a in mngr.list_agents()] == ["w-2"]


def test_count_reports_which_agents_failed(mngr: MngrProgram) -> None:
    run_git(mngr.repo, "branch", "mngr/w-2")
    result = mngr("create", "w", "--count", "3", "--format", "json", "--", "sleep", "1000", code=4)
    assert [a["name"] for a in result.parse_json()["agents"]] == ["w-1", "w-3"]
    error = json.loads(result.err)["error"]
    assert error["message"].endswith("1 of 3 agents could not be created: w-2: there is already a branch 'mngr/w-2'")
    assert sorted(a["name"] for a in mngr.list_agents()) == ["w-1", "w-3"]
    assert run_git(mngr.repo, "branch", "--list", "mngr/w-2") != ""
    run_git(mngr.repo, "branch", "mngr/v-1")
    quiet = mngr("create", "v", "--count", "2", "-q", "--", "sleep", "1000", code=4).err
    assert quiet.startswith("Error: v-1: there is already a branch 'mngr/v-1'\nError: 1 of 2 agents")


def test_count_needs_a_branch_pattern_with_a_star(mngr: MngrProgram) -> None:
    for branch in ("main", ":one"):
        mngr("create", "w", "--count", "2", "--branch", branch, "--", "sleep", "1000", code=2)
    mngr("create", "w", "--count", "0", "--", "sleep", "1000", code=2)
    assert is_nothing_left(mngr)
    mngr("create", "w", "--count", "2", "--branch", ":team/*-x", "--", "sleep", "1000")
    assert sorted(a["branch"] for a in mngr.list_agents()) == ["team/w-1-x", "team/w-2-x"]


def test_reuse_keeps_the_existing_agent_and_starts_it(mngr: MngrProgram) -> None:
    first = mngr.run_json("create", "foo", "--reuse", "--", "sleep", "1000")["agents"][0]
    again = mngr.run_json("create", "foo", "--reuse", "--", "sleep", "1000")["agents"][0]
    assert (again["id"], again["pid"], again["state"]) == (first["id"], first["pid"], "RUNNING")
    mngr("stop", "foo")
    third = mngr.run_json("create", "foo", "--reuse", "--", "sleep", "1000")["agents"][0]
    assert (third["id"], third["state"]) == (first["id"], "RUNNING")
    assert third["pid"] != first["pid"]
    assert mngr.get_agent("foo")["pid"] == third["pid"]


def test_create_with_a_taken_name_fails_and_changes_nothing(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    before = mngr.get_agent("foo")
    assert "there is already an agent called 'foo'" in mngr("create", "foo", "--", "sleep", "1", code=1).err
    assert mngr.get_agent("foo") == before
    assert len(list((mngr.home / "agents").iterdir())) == 1


def test_windows_run_beside_the_agent_with_its_environment(mngr: MngrProgram) -> None:
    line = 'echo "$MNGR_AGENT_NAME $A" >>w.log; pwd >>w.log; sleep 1000'
    mngr(
        "create",
        "foo",
        "--env",
        "A=b c",
        "-w",
        f"logs={line}",
        "-w",
        "idle=sleep 1000",
        "--",
        "sleep",
        "1000",
    )
    assert mngr.run_tmux("list-windows", "-t", "=foo", "-F", "#{window_name}").split() == [
        "agent",
        "logs",
        "idle",
    ]
    file = mngr.get_work_dir("foo") / "w.log"
    assert wait_for(lambda: file.exists() and file.read_text().count("\n") == 2)
    assert file.read_text() == f"foo b c\n{mngr.get_work_dir('foo')}\n"
    assert mngr.run_tmux("display-message", "-p", "-t", "=foo:", "#{window_name}").strip() == "agent"


def test_the_environment_tells_an_agent_its_id_and_directories(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    agent = mngr.get_agent("foo")
    raw = Path(f"/proc/{agent['pid']}/environ").read_bytes().decode().split("\0")[:-1]
    environment = dict(line.split("=", 1) for line in raw)
    directory = mngr.home / "agents" / agent["id"]
    assert {key: value for key, value in environment.items() if key.startswith("MNGR")} == {
        "MNGR_AGENT_ID": agent["id"],
        "MNGR_AGENT_NAME": "foo",
        "MNGR_AGENT_DIR": str(directory),
        "MNGR_WORK_DIR": agent["work_dir"],
        "MNGR_OUTPUT_DIR": str(directory / "outputs"),
        "MNGR_BASE": agent["base"],
        "MNGR_BRANCH": "mngr/foo",
    }
    assert (directory / "outputs").is_dir()
    assert os.readlink(f"/proc/{agent['pid']}/cwd") == agent["work_dir"]


def test_agents_run_in_a_separate_tmux_server(mngr: MngrProgram, tmp_path: Path) -> None:
    socket = tmp_path / "user.tmux"
    user_tmux = ["tmux", "-S", str(socket), "-f", "/dev/null"]
    subprocess.run([*user_tmux, "new-session", "-d", "-s", "foo", "sleep", "1000"], check=True)
    try:
        pane = subprocess.run(
            [*user_tmux, "list-panes", "-a", "-F", "#{pane_id}"], capture_output=True, text=True, check=True
        )
        user_environment = {"TMUX": f"{socket},1,0", "TMUX_PANE": pane.stdout.strip()}
        mngr("create", "foo", "--", "sleep", "1000", env=user_environment)
        mngr("rename", "foo", "bar", env=user_environment)
        mngr("stop", "bar", env=user_environment)
        mngr("start", "bar", env=user_environment)
        output = subprocess.run(
            [*user_tmux, "list-sessions", "-F", "#{session_name}"], capture_output=True, text=True, check=True
        )
        assert output.stdout == "foo\n"
        assert mngr.run_tmux("list-sessions", "-F", "#{session_name}") == "bar\n"
    finally:
        subprocess.run([*user_tmux, "kill-server"], check=False)
    link = os.readlink(mngr.home / "tmux.socket")
    assert link.startswith(f"/tmp/mngr-{os.getuid()}/") and len(Path(link).name) == 12
    assert Path(link).parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["it's #{pid} $HOME", "#(touch pwned)", 'a"b\\c'])
def test_special_characters_in_a_directory_name_have_no_effect(mngr: MngrProgram, tmp_path: Path, name: str) -> None:
    odd = tmp_path / name
    odd.mkdir()
    mngr("create", "foo", "--transfer", "none", "-w", "w=sleep 1000", "--", "sleep", "1000", cwd=odd)
    assert mngr.get_agent("foo")["work_dir"] == str(odd)
    assert os.readlink(f"/proc/{mngr.get_agent('foo')['pid']}/cwd") == str(odd)
    assert mngr.run_tmux("display-message", "-p", "-t", "=foo:", "#{session_path}").strip() == str(odd)
    assert not list(tmp_path.rglob("pwned"))


def test_idle_timeout_stops_an_agent_that_is_idle(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--idle-timeout", "1s", "--", "sleep", "1000")
    assert mngr.run_json("limit", "foo")["results"][0]["idle_timeout"] == 1.0
    agent = wait_for(lambda: (a := mngr.get_agent("foo"))["state"] == "STOPPED" and a)
    assert agent["state_reason"] == "idle"


TEMPLATES = """\
[templates.red]
label = ["team=red", "size=s"]
env = ["COLOUR=red"]
window = ["w=sleep 1000"]

[templates.big]
label = ["size=l"]
branch = ":big/*"

[templates.played]
kind = "player"

[templates.broken]
colour = "red"
"""


def test_templates_set_options(mngr: MngrProgram) -> None:
    mngr.home.mkdir()
    (mngr.home / "settings.toml").write_text(TEMPLATES)
    mngr("create", "one", "-t", "red", "--", "sleep", "1000")
    first = mngr.get_agent("one")
    assert first["labels"] == {"team": "red", "size": "s"}
    assert mngr("exec", "one", "--", "printenv", "COLOUR").out == "red\n"
    assert mngr.run_tmux("list-windows", "-t", "=one", "-F", "#{window_name}").split() == ["agent", "w"]
    mngr("create", "two", "-t", "red", "-t", "big", "--label", "a=b", "--", "sleep", "1000")
    second = mngr.get_agent("two")
    assert (second["labels"], second["branch"]) == ({"team": "red", "size": "l", "a": "b"}, "big/two")
    mngr("create", "three", "-t", "played")
    assert mngr.get_agent("three")["kind"] == "player"


def test_an_unknown_or_invalid_template_is_rejected(mngr: MngrProgram) -> None:
    mngr.home.mkdir()
    (mngr.home / "settings.toml").write_text(TEMPLATES)
    unknown = mngr("create", "foo", "-t", "rde", "--", "sleep", "1", code=2).err
    assert "there is no template 'rde'" in unknown and "did you mean 'red'" in unknown
    assert "'colour'" in mngr("create", "foo", "-t", "broken", "--", "sleep", "1", code=2).err
    assert mngr.list_agents() == []


def test_settings_change_the_defaults_of_options_and_kind(mngr: MngrProgram) -> None:
    mngr("create", "one", "-S", "commands.create.label=['a=b']", "-S", "commands.create.kind=player")
    assert (mngr.get_agent("one")["kind"], mngr.get_agent("one")["labels"]) == ("player", {"a": "b"})
    mngr("create", "two", "-S", "commands.create.kind=player", "--", "sleep", "1000")
    assert mngr.get_agent("two")["kind"] == "command"
    assert "mngr does not know what to run" in mngr("create", "three", code=1).err
    assert "no agent kind 'plyer'" in mngr("create", "three", "plyer", code=1).err


def test_labels_windows_and_variables_need_a_value(mngr: MngrProgram) -> None:
    for flag in ("--label", "-w", "--env"):
        mngr("create", "foo", flag, "novalue", "--", "sleep", "1", code=2)
    assert is_nothing_left(mngr)


def test_connect_without_a_terminal_fails_before_anything_is_created(mngr: MngrProgram) -> None:
    assert "needs a terminal" in mngr("create", "foo", "--connect", "--", "sleep", "1", code=1).err
    assert "--count" in mngr("create", "foo", "--connect", "--count", "2", "--", "sleep", "1", code=2).err
    assert is_nothing_left(mngr)


def test_connect_command_option_runs_instead_of_attaching(mngr: MngrProgram) -> None:
    line = 'echo "$MNGR_AGENT_NAME|$MNGR_WORK_DIR|$MNGR_AGENT_ID"'
    output = mngr("create", "foo", "-q", "--connect-command", line, "--", "sleep", "1000").out
    assert output == f"foo|{mngr.get_work_dir('foo')}|{mngr.get_agent('foo')['id']}\n"


def test_connect_command_setting_runs_only_when_connecting(mngr: MngrProgram) -> None:
    setting = ("-S", "commands.create.connect_command=echo connected to $MNGR_AGENT_NAME")
    assert "connected" not in mngr("create", "one", *setting, "--", "sleep", "1000").out
    assert "connected" not in mngr("create", "two", "--no-connect", *setting, "--", "sleep", "1000").out
    assert mngr("create", "three", "--connect", *setting, "--", "sleep", "1000").out.endswith("connected to three\n")
    assert mngr("connect", "one", *setting).out == "connected to one\n"


def run_in_parallel(mngr: MngrProgram, lines: list[list[str]]) -> list[tuple[int, str]]:
    """Start all commands at once and return their (exit code, stderr) in order."""
    processes = [
        subprocess.Popen([str(BIN_DIR / "mngr"), *line], cwd=mngr.repo, env=mngr.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in lines
    ]  # fmt: skip
    errors = [process.communicate(timeout=600)[1] for process in processes]
    return [(process.returncode, text) for process, text in zip(processes, errors, strict=True)]


def test_sixteen_processes_create_agents_in_one_repository_at_once(mngr: MngrProgram) -> None:
    agents_per_process = 13 if IS_FULL_SCALE else 2
    lines = [
        ["create", f"p{n}", "--count", str(agents_per_process), "--no-connect", "--", "sleep", "1000"] for n in range(8)
    ]
    lines += [["create", "-q", "--", "sleep", "1000"] for _ in range(8)]
    for _ in range(agents_per_process - 1 if IS_FULL_SCALE else 0):
        assert {code for code, _ in run_in_parallel(mngr, lines[8:])} == {0}
    results = run_in_parallel(mngr, lines)
    assert results == [(0, "")] * 16
    agents = mngr.list_agents()
    expected_count = 8 * agents_per_process + 8 * (agents_per_process if IS_FULL_SCALE else 1)
    assert len(agents) == expected_count == len({a["name"] for a in agents}) == len({a["work_dir"] for a in agents})
    not_running = [a for a in agents if a["state"] != "RUNNING"]
    assert not_running == []
    assert run_git(mngr.repo, "worktree", "list").count("\n") == expected_count
    assert sorted(os.listdir(mngr.home / "names")) == sorted(a["name"] for a in agents)
    assert len(mngr.run_tmux("list-sessions").splitlines()) == expected_count
    run_git(mngr.repo, "fsck", "--strict")


def test_worktrees_are_added_one_at_a_time(mngr: MngrProgram) -> None:
    """mngr adds a worktree under a lock on the repository, which other programs can hold, too."""
    with open(mngr.repo / ".git/mngr.base.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        argv = [str(BIN_DIR / "mngr"), "create", "foo", "--", "sleep", "1000"]
        process = subprocess.Popen(argv, cwd=mngr.repo, env=mngr.env, stdout=subprocess.DEVNULL)
        wait_for(lambda: [a["state"] for a in mngr.list_agents()] == ["STARTING"])
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        assert run_git(mngr.repo, "worktree", "list").count("\n") == 0
    assert process.wait(20) == 0 and mngr.get_agent("foo")["state"] == "RUNNING"


def test_only_one_of_many_parallel_creates_gets_a_name(mngr: MngrProgram) -> None:
    rounds = 20 if IS_FULL_SCALE else 2
    for number in range(rounds):
        mode = "none" if number % 2 else "worktree"
        line = ["create", f"same-{number}", "--transfer", mode, "--", "sleep", "1000"]
        results = run_in_parallel(mngr, [line] * (16 if IS_FULL_SCALE else 8))
        assert sorted(code for code, _ in results)[:2] == [0, 1], results
        assert all("already" in output for code, output in results if code)
    agents = mngr.list_agents()
    assert sorted(a["name"] for a in agents) == sorted(f"same-{n}" for n in range(rounds))
    assert {a["state"] for a in agents} == {"RUNNING"}
    for agent in agents:
        assert run_git(Path(agent["work_dir"]), "symbolic-ref", "--short", "HEAD") == agent["branch"]
    assert run_git(mngr.repo, "worktree", "list").count("\n") == (rounds + 1) // 2
    assert len(os.listdir(mngr.home / "agents")) == rounds


def test_the_first_message_has_arrived_when_create_returns(mngr: MngrProgram, tmp_path: Path) -> None:
    mngr("create", "foo", "player", "-m", "hello there", "--transfer", "none")
    assert "hello there" in mngr("transcript", "foo").out
    (tmp_path / "text").write_text("two\nlines é\n")
    mngr(
        "create",
        "w",
        "player",
        "--count",
        "2",
        "--message-file",
        str(tmp_path / "text"),
        "--transfer",
        "none",
    )
    for name in ("w-1", "w-2"):
        assert "two\n  lines é\n" in mngr("transcript", name).out


def test_create_reads_a_message_file_as_message_does(mngr: MngrProgram, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"one\r\ntwo\n")
    mngr("create", "foo", "player", "--message-file", "~/text", env={"HOME": str(tmp_path)})
    mngr("message", "foo", "--message-file", "~/text", env={"HOME": str(tmp_path)})
    rows = mngr.run_json("transcript", "foo")["transcript"]
    assert [row["text"] for row in rows if row["role"] == "user"] == ["one\ntwo", "one\ntwo"]


def test_a_first_message_that_does_not_arrive_is_an_error(mngr: MngrProgram) -> None:
    result = mngr("create", "foo", "player", "--transfer", "none", "-m", "evil \x1b[201~ paste", code=1)
    assert "control character" in result.err
    assert mngr.list_agents() == []
    scenario = '{"start": "now", "steps": [{"exit": 3}]}'
    result = mngr("create", "w", "player", "--transfer", "none", "--count", "2", "-m", "hi", "--", scenario, code=4)
    assert "w-1 runs in" in result.out and "did not reach 2 of 2" in result.err


def test_dirty_include_rejects_changes_in_a_submodule(mngr: MngrProgram, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    run_git(tmp_path, "clone", "-q", str(mngr.repo), str(inner))
    run_git(mngr.repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "mod")
    run_git(mngr.repo, "commit", "-q", "-m", "a submodule")
    (mngr.repo / "mod" / "README.md").write_text("changed")
    err = mngr("create", "foo", "--dirty", "include", "--", "sleep", "1000", code=1).err
    assert "the submodule 'mod' has changes" in err and "Hint:" in err
    assert mngr.list_agents() == []


def test_reuse_notes_that_the_agent_exists(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    assert "foo exists already" in mngr("create", "foo", "--reuse", "--", "sleep", "2000").err


def test_reuse_rejects_an_agent_of_another_kind(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player")
    mngr("stop", "foo")
    for words in (["codex"], ["--", "sleep", "1000"]):
        stderr = mngr("create", "foo", "--reuse", *words, code=1).err
        assert "foo exists already and is of the kind player" in stderr and "mngr start foo" in stderr
    assert mngr.get_agent("foo")["state"] == "STOPPED"
    mngr("create", "foo", "player", "--reuse")


def test_dirty_include_rejects_another_base(mngr: MngrProgram) -> None:
    run_git(mngr.repo, "branch", "other")
    (mngr.repo / "README.md").write_text("second")
    run_git(mngr.repo, "commit", "-q", "-a", "-m", "second")
    (mngr.repo / "README.md").write_text("third")
    words = ("create", "foo", "--dirty", "include", "--branch", "other:new", "--", "sleep", "1000")
    assert "--branch starts from another commit" in mngr(*words, code=1).err
    assert mngr.list_agents() == []


def test_all_sandboxed_agents_of_a_count_get_the_same_network(mngr: MngrProgram) -> None:
    mngr("create", "w", "--count", "5", "--sandbox", "--", "sleep", "1000")
    records = [json.loads(path.read_text()) for path in mngr.home.glob("agents/a-*/agent.json")]
    assert [record["network"] for record in records] == ["off"] * 5
