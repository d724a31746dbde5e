"""`mngr create` from outside: what runs, what it is given, and that a failure leaves nothing."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from pathlib import Path

import pytest

from mngr.base import names
from tests.conftest import BIN_DIR, IS_FULL_SCALE, MngrProgram, run_git, wait_for


def nothing_is_left(mngr: MngrProgram) -> bool:
    """No agent, worktree, branch, session, record or name."""
    assert mngr.list_agents() == []
    assert run_git(mngr.repo, "worktree", "list").count("\n") == 0
    assert run_git(mngr.repo, "branch", "--list", "mngr/*") == ""
    for place in ("agents", "names", "work"):
        assert not (mngr.home / place).exists() or list((mngr.home / place).iterdir()) == []
    assert not (mngr.home / "tmux.socket").is_symlink() or mngr.run_tmux("list-sessions") == ""
    return True


def test_a_command_runs_in_its_own_worktree_on_its_own_branch(mngr: MngrProgram) -> None:
    said = mngr("create", "foo", "--", "sleep", "1000").out
    agent = mngr.get_agent("foo")
    assert said == f"foo runs in {agent['work_dir']} on mngr/foo\n"
    assert (agent["state"], agent["kind"], agent["branch"]) == ("RUNNING", "command", "mngr/foo")
    assert (agent["project"], agent["base"]) == ("repo", run_git(mngr.repo, "rev-parse", "HEAD"))
    assert run_git(mngr.get_work_dir("foo"), "rev-parse", "--abbrev-ref", "HEAD") == "mngr/foo"
    assert run_git(mngr.get_work_dir("foo"), "status", "--porcelain") == ""
    assert Path(f"/proc/{agent['pid']}/cmdline").read_bytes() == b"sleep\x001000\x00"


def test_a_command_that_does_not_exist_leaves_nothing(mngr: MngrProgram) -> None:
    ran = mngr("create", "foo", "--", "no-such-program", code=1)
    assert "no-such-program: command not found" in ran.err
    assert nothing_is_left(mngr)


@pytest.mark.parametrize("word", ["cd", "export", "if"])
def test_what_only_a_shell_knows_is_no_command(mngr: MngrProgram, word: str) -> None:
    assert f"{word}: command not found" in mngr("create", "foo", "--", word, code=1).err
    assert nothing_is_left(mngr)


def test_create_answers_with_the_agent_as_json(mngr: MngrProgram) -> None:
    made = mngr.run_json("create", "foo", "--label", "team=red", "--", "sleep", "1000")
    assert made["v"] == 1
    (agent,) = made["agents"]
    seen = mngr.get_agent("foo")
    assert {k: v for k, v in agent.items() if not k.startswith(("state", "activity"))} == {
        k: v for k, v in seen.items() if not k.startswith(("state", "activity"))
    }
    assert agent["labels"] == {"team": "red"}


def test_the_process_runs_when_create_returns(mngr: MngrProgram) -> None:
    for number in range(5):
        pid = mngr.run_json("create", f"w{number}", "--", "sleep", "1000")["agents"][0]["pid"]
        assert Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x001000\x00"


def test_one_word_with_spaces_is_a_line_for_the_shell(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", 'echo "$MNGR_AGENT_NAME $((40 + 2))" >out.log; sleep 1000')
    file = mngr.get_work_dir("foo") / "out.log"
    assert wait_for(lambda: file.exists() and file.read_text()) == "foo 42\n"


def test_words_reach_the_command_as_they_are(mngr: MngrProgram) -> None:
    words = ["a b", "", "$HOME", "`id`", "'", '"', "\\", ";", "*", "é", "-x", "a\nb"]
    mngr("create", "foo", "--", "sh", "-c", 'printf "%s\\0" "$@" >args.log; sleep 1000', "sh", *words)
    file = mngr.get_work_dir("foo") / "args.log"
    assert wait_for(lambda: file.exists() and file.read_bytes()).decode().split("\0")[:-1] == words


def every_name() -> list[str]:
    """All that could be made up."""
    return [f"{adjective}-{noun}" for adjective in names._ADJECTIVES for noun in names._NOUNS]


def test_a_name_is_made_up(mngr: MngrProgram) -> None:
    first, second = (mngr.run_json("create", "--", "sleep", "1000")["agents"][0] for _ in "12")
    assert first["name"] != second["name"]
    for agent in (first, second):
        adjective, _, animal = agent["name"].partition("-")
        assert adjective.isalpha() and animal.isalpha()
        assert agent["branch"] == f"mngr/{agent['name']}"


def test_a_made_up_name_is_never_one_that_is_taken(mngr: MngrProgram) -> None:
    """With every name of the generator but one in use, that one is found or a longer one is made."""
    mngr("create", "first", "--", "sleep", "1000")
    agent_id = mngr.get_agent("first")["id"]
    program = "from mngr.base import names; print(*[f'{a}-{b}' for a in names._ADJECTIVES for b in names._NOUNS])"
    every = subprocess.run(
        [BIN_DIR / "python", "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    for name in every:
        (mngr.home / "names" / name).symlink_to(agent_id)
    assert mngr.run_json("create", "--", "sleep", "1000")["agents"][0]["name"] not in every


@pytest.mark.hosts
def test_a_made_up_name_is_never_one_whose_branch_is_there(mngr: MngrProgram) -> None:
    """A destroyed agent's branch may stay: three of four names are spoilt like that, and nobody notices."""
    head = run_git(mngr.repo, "rev-parse", "HEAD")
    taken = [name for number, name in enumerate(every_name()) if number % 4]
    rows = "".join(f"create refs/heads/mngr/{name} {head}\n" for name in taken)
    subprocess.run(["git", "-C", str(mngr.repo), "update-ref", "--stdin"], input=rows, text=True, check=True)
    run_git(mngr.repo, "pack-refs", "--all")
    for _ in range(3):
        assert mngr.run_json("create", "--", "sleep", "1000")["agents"][0]["name"] not in taken


def test_count_makes_numbered_agents_in_order(mngr: MngrProgram) -> None:
    made = mngr.run_json("create", "w", "--count", "3", "--", "sleep", "1000")["agents"]
    assert [(a["name"], a["branch"]) for a in made] == [(f"w-{i}", f"mngr/w-{i}") for i in (1, 2, 3)]
    assert sorted(a["name"] for a in mngr.list_agents()) == ["w-1", "w-2", "w-3"]
    assert len({a["work_dir"] for a in made}) == 3


def test_count_with_a_name_that_is_taken_makes_none(mngr: MngrProgram) -> None:
    mngr("create", "w-2", "--", "sleep", "1000")
    assert "'w-2'" in mngr("create", "w", "--count", "3", "--", "sleep", "1000", code=1).err
    assert [a["name"] for a in mngr.list_agents()] == ["w-2"]


def test_count_tells_which_of_them_failed(mngr: MngrProgram) -> None:
    run_git(mngr.repo, "branch", "mngr/w-2")
    ran = mngr("create", "w", "--count", "3", "--format", "json", "--", "sleep", "1000", code=4)
    assert [a["name"] for a in ran.parse_json()["agents"]] == ["w-1", "w-3"]
    error = json.loads(ran.err)["error"]
    assert error["message"].endswith("1 of 3 agents could not be made: w-2: there is already a branch 'mngr/w-2'")
    assert sorted(a["name"] for a in mngr.list_agents()) == ["w-1", "w-3"]
    assert run_git(mngr.repo, "branch", "--list", "mngr/w-2") != ""
    run_git(mngr.repo, "branch", "mngr/v-1")
    quiet = mngr("create", "v", "--count", "2", "-q", "--", "sleep", "1000", code=4).err
    assert quiet.startswith("Error: v-1: there is already a branch 'mngr/v-1'\nError: 1 of 2 agents")


def test_a_count_needs_a_branch_each(mngr: MngrProgram) -> None:
    for branch in ("main", ":one"):
        mngr("create", "w", "--count", "2", "--branch", branch, "--", "sleep", "1000", code=2)
    mngr("create", "w", "--count", "0", "--", "sleep", "1000", code=2)
    assert nothing_is_left(mngr)
    mngr("create", "w", "--count", "2", "--branch", ":team/*-x", "--", "sleep", "1000")
    assert sorted(a["branch"] for a in mngr.list_agents()) == ["team/w-1-x", "team/w-2-x"]


def test_reuse_takes_the_agent_there_is_and_starts_it(mngr: MngrProgram) -> None:
    first = mngr.run_json("create", "foo", "--reuse", "--", "sleep", "1000")["agents"][0]
    again = mngr.run_json("create", "foo", "--reuse", "--", "sleep", "1000")["agents"][0]
    assert (again["id"], again["pid"], again["state"]) == (first["id"], first["pid"], "RUNNING")
    mngr("stop", "foo")
    third = mngr.run_json("create", "foo", "--reuse", "--", "sleep", "1000")["agents"][0]
    assert (third["id"], third["state"]) == (first["id"], "RUNNING")
    assert third["pid"] != first["pid"]
    assert mngr.get_agent("foo")["pid"] == third["pid"]


def test_a_name_that_is_taken_is_refused(mngr: MngrProgram) -> None:
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


def test_an_agent_finds_where_it_is(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    agent = mngr.get_agent("foo")
    raw = Path(f"/proc/{agent['pid']}/environ").read_bytes().decode().split("\0")[:-1]
    found = dict(line.split("=", 1) for line in raw)
    directory = mngr.home / "agents" / agent["id"]
    assert {key: value for key, value in found.items() if key.startswith("MNGR")} == {
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


def test_the_server_is_our_own_and_the_users_is_never_touched(mngr: MngrProgram, tmp_path: Path) -> None:
    socket = tmp_path / "user.tmux"
    users = ["tmux", "-S", str(socket), "-f", "/dev/null"]
    subprocess.run([*users, "new-session", "-d", "-s", "foo", "sleep", "1000"], check=True)
    try:
        pane = subprocess.run(
            [*users, "list-panes", "-a", "-F", "#{pane_id}"], capture_output=True, text=True, check=True
        )
        inside = {"TMUX": f"{socket},1,0", "TMUX_PANE": pane.stdout.strip()}
        mngr("create", "foo", "--", "sleep", "1000", env=inside)
        mngr("rename", "foo", "bar", env=inside)
        mngr("stop", "bar", env=inside)
        mngr("start", "bar", env=inside)
        said = subprocess.run(
            [*users, "list-sessions", "-F", "#{session_name}"], capture_output=True, text=True, check=True
        )
        assert said.stdout == "foo\n"
        assert mngr.run_tmux("list-sessions", "-F", "#{session_name}") == "bar\n"
    finally:
        subprocess.run([*users, "kill-server"], check=False)
    link = os.readlink(mngr.home / "tmux.socket")
    assert link.startswith(f"/tmp/mngr-{os.getuid()}/") and len(Path(link).name) == 12
    assert Path(link).parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["it's #{pid} $HOME", "#(touch pwned)", 'a"b\\c'])
def test_a_directory_with_an_odd_name_is_only_a_directory(mngr: MngrProgram, tmp_path: Path, name: str) -> None:
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


def test_templates_stand_for_options(mngr: MngrProgram) -> None:
    mngr.home.mkdir()
    (mngr.home / "settings.toml").write_text(TEMPLATES)
    mngr("create", "one", "-t", "red", "--", "sleep", "1000")
    one = mngr.get_agent("one")
    assert one["labels"] == {"team": "red", "size": "s"}
    assert mngr("exec", "one", "--", "printenv", "COLOUR").out == "red\n"
    assert mngr.run_tmux("list-windows", "-t", "=one", "-F", "#{window_name}").split() == ["agent", "w"]
    mngr("create", "two", "-t", "red", "-t", "big", "--label", "a=b", "--", "sleep", "1000")
    two = mngr.get_agent("two")
    assert (two["labels"], two["branch"]) == ({"team": "red", "size": "l", "a": "b"}, "big/two")
    mngr("create", "three", "-t", "played")
    assert mngr.get_agent("three")["kind"] == "player"


def test_a_template_that_is_unknown_or_wrong_is_refused(mngr: MngrProgram) -> None:
    mngr.home.mkdir()
    (mngr.home / "settings.toml").write_text(TEMPLATES)
    unknown = mngr("create", "foo", "-t", "rde", "--", "sleep", "1", code=2).err
    assert "there is no template 'rde'" in unknown and "did you mean 'red'" in unknown
    assert "'colour'" in mngr("create", "foo", "-t", "broken", "--", "sleep", "1", code=2).err
    assert mngr.list_agents() == []


def test_settings_give_defaults_to_options_and_the_kind(mngr: MngrProgram) -> None:
    mngr("create", "one", "-S", "commands.create.label=['a=b']", "-S", "commands.create.kind=player")
    assert (mngr.get_agent("one")["kind"], mngr.get_agent("one")["labels"]) == ("player", {"a": "b"})
    mngr("create", "two", "-S", "commands.create.kind=player", "--", "sleep", "1000")
    assert mngr.get_agent("two")["kind"] == "command"
    assert "nothing to run" in mngr("create", "three", code=1).err
    assert "no agent kind 'plyer'" in mngr("create", "three", "plyer", code=1).err


def test_labels_must_be_pairs(mngr: MngrProgram) -> None:
    for flag in ("--label", "-w", "--env"):
        mngr("create", "foo", flag, "novalue", "--", "sleep", "1", code=2)
    assert nothing_is_left(mngr)


def test_connect_is_refused_without_a_terminal_before_anything_is_made(mngr: MngrProgram) -> None:
    assert "needs a terminal" in mngr("create", "foo", "--connect", "--", "sleep", "1", code=1).err
    assert "--count" in mngr("create", "foo", "--connect", "--count", "2", "--", "sleep", "1", code=2).err
    assert nothing_is_left(mngr)


def test_a_connect_command_of_the_flag_is_run_instead_of_attaching(mngr: MngrProgram) -> None:
    line = 'echo "$MNGR_AGENT_NAME|$MNGR_WORK_DIR|$MNGR_AGENT_ID"'
    said = mngr("create", "foo", "-q", "--connect-command", line, "--", "sleep", "1000").out
    assert said == f"foo|{mngr.get_work_dir('foo')}|{mngr.get_agent('foo')['id']}\n"


def test_a_connect_command_of_the_settings_is_run_when_we_connect(mngr: MngrProgram) -> None:
    setting = ("-S", "commands.create.connect_command=echo connected to $MNGR_AGENT_NAME")
    assert "connected" not in mngr("create", "one", *setting, "--", "sleep", "1000").out
    assert "connected" not in mngr("create", "two", "--no-connect", *setting, "--", "sleep", "1000").out
    assert mngr("create", "three", "--connect", *setting, "--", "sleep", "1000").out.endswith("connected to three\n")
    assert mngr("connect", "one", *setting).out == "connected to one\n"


def run_together(mngr: MngrProgram, lines: list[list[str]]) -> list[tuple[int, str]]:
    """Start every command at once; exit codes and what was said, in order."""
    started = [
        subprocess.Popen([str(BIN_DIR / "mngr"), *line], cwd=mngr.repo, env=mngr.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in lines
    ]  # fmt: skip
    said = [process.communicate(timeout=600)[1] for process in started]
    return [(process.returncode, text) for process, text in zip(started, said, strict=True)]


def test_sixteen_processes_make_many_agents_in_one_repository(mngr: MngrProgram) -> None:
    each = 13 if IS_FULL_SCALE else 2
    lines = [["create", f"p{n}", "--count", str(each), "--no-connect", "--", "sleep", "1000"] for n in range(8)]
    lines += [["create", "-q", "--", "sleep", "1000"] for _ in range(8)]
    for _ in range(each - 1 if IS_FULL_SCALE else 0):
        assert {code for code, _ in run_together(mngr, lines[8:])} == {0}
    done = run_together(mngr, lines)
    assert done == [(0, "")] * 16
    agents = mngr.list_agents()
    wanted = 8 * each + 8 * (each if IS_FULL_SCALE else 1)
    assert len(agents) == wanted == len({a["name"] for a in agents}) == len({a["work_dir"] for a in agents})
    others = [a for a in agents if a["state"] != "RUNNING"]
    assert others == []
    assert run_git(mngr.repo, "worktree", "list").count("\n") == wanted
    assert sorted(os.listdir(mngr.home / "names")) == sorted(a["name"] for a in agents)
    assert len(mngr.run_tmux("list-sessions").splitlines()) == wanted
    run_git(mngr.repo, "fsck", "--strict")


def test_worktrees_are_added_one_at_a_time(mngr: MngrProgram) -> None:
    """Under a lock on the repository, which others who add worktrees can hold too."""
    with open(mngr.repo / ".git/mngr.base.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        argv = [str(BIN_DIR / "mngr"), "create", "foo", "--", "sleep", "1000"]
        process = subprocess.Popen(argv, cwd=mngr.repo, env=mngr.env, stdout=subprocess.DEVNULL)
        wait_for(lambda: [a["state"] for a in mngr.list_agents()] == ["STARTING"])
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        assert run_git(mngr.repo, "worktree", "list").count("\n") == 0
    assert process.wait(20) == 0 and mngr.get_agent("foo")["state"] == "RUNNING"


def test_a_name_that_many_want_goes_to_one(mngr: MngrProgram) -> None:
    rounds = 20 if IS_FULL_SCALE else 2
    for number in range(rounds):
        mode = "none" if number % 2 else "worktree"
        line = ["create", f"same-{number}", "--transfer", mode, "--", "sleep", "1000"]
        done = run_together(mngr, [line] * (16 if IS_FULL_SCALE else 8))
        assert sorted(code for code, _ in done)[:2] == [0, 1], done
        assert all("already" in said for code, said in done if code)
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


def test_a_first_message_that_does_not_arrive_is_not_passed_over(mngr: MngrProgram) -> None:
    ran = mngr("create", "foo", "player", "--transfer", "none", "-m", "evil \x1b[201~ paste", code=1)
    assert "control character" in ran.err
    assert mngr.list_agents() == []
    scenario = '{"start": "now", "steps": [{"exit": 3}]}'
    ran = mngr("create", "w", "player", "--transfer", "none", "--count", "2", "-m", "hi", "--", scenario, code=4)
    assert "w-1 runs in" in ran.out and "did not reach 2 of 2" in ran.err


def test_changes_in_a_submodule_cannot_be_taken_along(mngr: MngrProgram, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    run_git(tmp_path, "clone", "-q", str(mngr.repo), str(inner))
    run_git(mngr.repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "mod")
    run_git(mngr.repo, "commit", "-q", "-m", "a submodule")
    (mngr.repo / "mod" / "README.md").write_text("changed")
    err = mngr("create", "foo", "--dirty", "include", "--", "sleep", "1000", code=1).err
    assert "the submodule 'mod' has changes" in err and "Hint:" in err
    assert mngr.list_agents() == []


def test_reuse_says_so(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    assert "foo is there already" in mngr("create", "foo", "--reuse", "--", "sleep", "2000").err


def test_changes_are_not_taken_to_another_base(mngr: MngrProgram) -> None:
    run_git(mngr.repo, "branch", "other")
    (mngr.repo / "README.md").write_text("second")
    run_git(mngr.repo, "commit", "-q", "-a", "-m", "second")
    (mngr.repo / "README.md").write_text("third")
    words = ("create", "foo", "--dirty", "include", "--branch", "other:new", "--", "sleep", "1000")
    assert "--branch starts elsewhere" in mngr(*words, code=1).err
    assert mngr.list_agents() == []


def test_many_behind_walls_have_the_network_of_one(mngr: MngrProgram) -> None:
    mngr("create", "w", "--count", "5", "--sandbox", "--", "sleep", "1000")
    records = [json.loads(path.read_text()) for path in mngr.home.glob("agents/a-*/agent.json")]
    assert [record["network"] for record in records] == ["off"] * 5
