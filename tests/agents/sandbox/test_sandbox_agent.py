"""Tests that a sandboxed agent works like any other, and that mngr handles its work inside the sandbox."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from mngr.testkit.contract.mngr_program import commit_file
from tests.conftest import BIN_DIR, MngrProgram, run_git, wait_for

pytestmark = pytest.mark.agents

WORK = '[{"write": {"path": "new.txt", "content": "x"}}, {"commit": "Work"}, {"reply": "done"}, "wait", {"exit": 3}]'


def list_pids(*words: str) -> list[int]:
    """Return the pids of all processes whose command line ends with these words."""
    end = b"\0".join(word.encode() for word in words) + b"\0"
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().endswith(end):
                pids.append(int(path.parent.name))
        except OSError:
            pass
    return pids


def test_a_sandboxed_agent_talks_works_commits_and_ends(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player", "--sandbox", "-m", "start", "--", WORK)
    mngr("wait", "foo", "--state", "WAITING")
    assert "Work" in mngr("transcript", "foo").out
    assert "done" in mngr("capture", "foo").out
    assert mngr("exec", "foo", "--", "git", "log", "-1", "--format=%s %an").out == "Work Test\n"
    mngr("stop", "foo")
    mngr("start", "foo")
    assert "delivered" in mngr("message", "foo", "-m", "end").out
    mngr("wait", "foo", "--state", "FAILED")
    assert mngr.get_agent("foo")["exit_code"] == 3
    rows = [row["type"] for row in mngr.run_json("events", "foo")["events"]]
    assert rows.count("ready") == 2 and "exited" in rows


def test_sandbox_uses_a_mirror_and_rejects_shared_transfer_modes(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--sandbox", "--", "sleep", "1000")
    assert (mngr.get_work_dir("foo") / ".git").is_dir()
    for mode in ("worktree", "none"):
        result = mngr("create", "bar", "--sandbox", "--transfer", mode, "--", "true", code=2)
        assert f"--transfer {mode}" in result.err and "mirror" in result.err
    mngr("create", "bar", "--sandbox", "--transfer", "copy", "--", "sleep", "1000")
    assert not (mngr.get_work_dir("bar") / ".git").exists()


def test_without_bubblewrap_nothing_is_created(mngr: MngrProgram, tmp_path: Path) -> None:
    result = mngr("create", "foo", "--sandbox", "--", "true", code=1, env={"PATH": str(tmp_path)})
    assert "--sandbox: bubblewrap (bwrap) is not installed" in result.err
    assert "apt-get install bubblewrap; to run the agent without isolation, leave out --sandbox" in result.err
    assert not mngr.home.exists()


def test_a_program_that_is_hidden_in_the_sandbox_is_not_found(mngr: MngrProgram, tmp_path: Path) -> None:
    hidden = tmp_path / "tool"
    hidden.write_text("#!/bin/sh\necho here\n")
    hidden.chmod(0o755)
    mngr("create", "foo", "--sandbox", "--", "sleep", "1000")
    for word in (str(hidden), "no-such-program"):
        assert f"{word}: command not found" in mngr("exec", "foo", "--", word, code=1).err
    mngr("create", "bar", "--sandbox", "--", str(hidden))  # The user named the program, so it is visible.
    mngr("wait", "bar", "--state", "DONE")


def test_only_the_users_settings_can_show_a_directory(mngr: MngrProgram, tmp_path: Path) -> None:
    for name in ("mine", "theirs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    (mngr.repo / ".mngr").mkdir()
    (mngr.repo / ".mngr" / "settings.toml").write_text(f'[sandbox]\nshow = ["{tmp_path}/theirs"]\n')
    commit_file(mngr.repo)
    mngr("config", "set", "--user", "sandbox.show", f'["{tmp_path}/mine"]')
    mngr("create", "foo", "--sandbox", "--", "sleep", "1000")
    line = f"cat {tmp_path}/mine/file {tmp_path}/theirs/file; echo x > {tmp_path}/mine/file"
    assert mngr("exec", "foo", "--", "sh", "-c", line, code=None).out == "mine"
    assert (tmp_path / "mine" / "file").read_text() == "mine"


def test_windows_and_set_up_of_a_sandboxed_agent_do_not_see_a_secret(mngr: MngrProgram) -> None:
    secret = Path(mngr.env["HOME"]) / "secret"
    secret.write_text("hunter2")
    line = f"(cat {secret} || echo unseen) > $MNGR_WORK_DIR/NAME 2>&1; ls /proc/net > /dev/null"
    mngr(
        "create", "foo", "--sandbox", "-w", f"side={line.replace('NAME', 'side')}; sleep 1000",
        "-S", f"project.setup={line.replace('NAME', 'setup')}", "--", "sleep", "1000",
    )  # fmt: skip
    for name in ("side", "setup"):
        path = mngr.get_work_dir("foo") / name
        wait_for(path.exists)
        assert wait_for(path.read_text).endswith("unseen\n")


def test_stop_ends_all_processes_in_the_sandbox(mngr: MngrProgram) -> None:
    first_seconds, second_seconds = str(10**6 + os.getpid()), str(2 * 10**6 + os.getpid())
    line = f"setsid sleep {first_seconds} & setsid sleep {second_seconds} & sleep 1000"
    mngr("create", "foo", "--sandbox", "--", "sh", "-c", line)
    wait_for(lambda: list_pids("sleep", first_seconds) and list_pids("sleep", second_seconds))
    mngr("stop", "foo")
    assert not list_pids("sleep", first_seconds) and not list_pids("sleep", second_seconds)
    assert mngr.get_agent("foo")["state"] == "STOPPED"


def test_a_sandboxed_program_can_handle_the_stop_signal(mngr: MngrProgram) -> None:
    line = 'trap "sleep 0.7; echo bye > bye; exit 0" TERM; echo ready > ready; while :; do sleep 0.05; done'
    mngr("create", "foo", "--sandbox", "--", "sh", "-c", line)
    wait_for((mngr.get_work_dir("foo") / "ready").exists)
    mngr("stop", "foo")
    assert (mngr.get_work_dir("foo") / "bye").exists()


def test_ctrl_c_reaches_only_the_sandboxed_program(mngr: MngrProgram) -> None:
    program = "import time\nprint('ready')\ntry: time.sleep(1000)\nexcept KeyboardInterrupt: print('caught')\ntime.sleep(1000)"
    mngr("create", "foo", "--sandbox", "--", "python3", "-uc", program)
    wait_for(lambda: "ready" in mngr("capture", "foo").out)
    mngr.run_tmux("send-keys", "-t", "=foo:", "C-c")
    wait_for(lambda: "caught" in mngr("capture", "foo").out)
    assert mngr.get_agent("foo")["state"] == "RUNNING"


@pytest.mark.parametrize(("line", "code"), [("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)])
def test_the_exit_code_of_a_sandboxed_program_is_recorded(mngr: MngrProgram, line: str, code: int) -> None:
    mngr("create", "foo", "--sandbox", "--", "sh", "-c", line)
    mngr("wait", "foo", "--state", "FAILED")
    assert mngr.get_agent("foo")["exit_code"] == code


def test_a_sandboxed_program_ends_with_its_terminal(mngr: MngrProgram) -> None:
    seconds = str(3 * 10**6 + os.getpid())
    mngr("create", "foo", "--sandbox", "--", "sh", "-c", f"trap '' HUP TERM; sleep {seconds} & wait; sleep {seconds}")
    wait_for(lambda: list_pids("sleep", seconds))
    mngr.run_tmux("kill-server")
    wait_for(lambda: not list_pids("sleep", seconds))


def test_nothing_runs_when_the_sandbox_file_is_missing(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--sandbox", "--", "sleep", "1000")
    (mngr.get_agent_dir("foo") / "sandbox").unlink()
    assert "the agent's sandbox files are missing" in mngr("exec", "foo", "--", "touch", "made", code=1).err
    mngr("diff", "foo", code=6)
    assert not (mngr.get_work_dir("foo") / "made").exists()
    mngr("stop", "foo")
    mngr("start", "foo")
    mngr("exec", "foo", "--", "true")


@pytest.fixture
def trapped(mngr: MngrProgram) -> MngrProgram:
    """A sandboxed agent with work. A setting of its repository breaks every git outside the sandbox."""
    trap = Path(mngr.env["HOME"]) / "trap"
    trap.write_text("[broken\n")
    mngr("create", "foo", "--sandbox", "--", "sleep", "1000")
    line = f"echo x > new.txt; git add . && git commit -qm Work; echo y > loose.txt; git config include.path {trap}"
    mngr("exec", "foo", "--", "sh", "-c", line)
    broken = subprocess.run(["git", "-C", mngr.get_work_dir("foo"), "log"], capture_output=True, text=True, check=False)
    assert "bad config" in broken.stderr
    return mngr


def test_git_for_diff_and_list_runs_in_the_sandbox(trapped: MngrProgram) -> None:
    assert "+y" in trapped("diff", "foo").out and "+x" in trapped("diff", "foo", "--committed").out
    agent = trapped.run_json("list", "--git")["agents"][0]
    assert (agent["dirty"], agent["unpulled"]) == (True, 1)


def test_git_for_pull_and_fetch_runs_in_the_sandbox(trapped: MngrProgram) -> None:
    trapped("pull", "foo")
    assert run_git(trapped.repo, "log", "-1", "--format=%s", "mngr/foo") == "Work"
    result = subprocess.run(
        ["git", "fetch", "-q", "mngr::foo", "mngr/foo:again"], cwd=trapped.repo, env=trapped.env, check=False
    )
    assert result.returncode == 0
    assert run_git(trapped.repo, "rev-parse", "again") == run_git(trapped.repo, "rev-parse", "mngr/foo")


def test_git_for_push_runs_in_the_sandbox(trapped: MngrProgram) -> None:
    head = commit_file(trapped.repo, "mine.txt")
    trapped("push", "foo", "--stash")
    assert (trapped.get_work_dir("foo") / "mine.txt").exists() and (trapped.get_work_dir("foo") / "loose.txt").exists()
    trapped("exec", "foo", "--", "git", "merge-base", "--is-ancestor", head, "HEAD")


def test_a_symbolic_link_of_the_agent_cannot_leak_files(trapped: MngrProgram, tmp_path: Path) -> None:
    """mngr copies files inside the sandbox, where the link leads nowhere."""
    secret = Path(trapped.env["HOME"]) / "secret"
    secret.write_text("hunter2")
    (tmp_path / "given").write_text("x")
    trapped("exec", "foo", "--", "ln", "-s", str(secret.parent), "way")
    trapped("pull", "foo:way/secret", str(tmp_path), code=1)
    trapped("push", str(tmp_path / "given"), "foo:way/given", code=1)
    assert not (tmp_path / "secret").exists() and not (secret.parent / "given").exists()
    trapped("pull", "foo:loose.txt", str(tmp_path))
    trapped("push", str(tmp_path / "given"), "foo:sub/")
    assert (tmp_path / "loose.txt").read_text() == "y\n"
    assert (trapped.get_work_dir("foo") / "sub" / "given").read_text() == "x"


@pytest.mark.parametrize("mode", ["mirror", "copy"])
def test_another_agent_can_be_created_from_a_sandboxed_agent(trapped: MngrProgram, mode: str) -> None:
    trapped("create", "bar", "--from", "foo", "--transfer", mode, "--dirty", "ignore", "--", "sleep", "1000")
    assert (trapped.get_work_dir("bar") / "new.txt").read_text() == "x\n"


def test_a_clone_has_the_same_sandbox(trapped: MngrProgram) -> None:
    trapped("clone", "foo", "bar")
    trapped(
        "exec",
        "bar",
        "--",
        "sh",
        "-c",
        f"[ ! -e {trapped.env['HOME']} ] && [ ! -e {trapped.get_work_dir('foo')} ]",
    )
    assert (trapped.get_work_dir("bar") / "loose.txt").exists()


def test_undestroy_restores_the_sandbox(trapped: MngrProgram) -> None:
    saved = trapped.run_json("destroy", "--force", "foo")["results"][0]
    assert (saved["dirty"], saved["unpulled"]) == (True, 1)
    trapped("undestroy", "foo")
    assert (trapped.get_work_dir("foo") / "loose.txt").exists()
    trapped("exec", "foo", "--", "sh", "-c", f"[ ! -e {trapped.env['HOME']} ]")
    trapped("start", "foo")
    trapped("exec", "foo", "--", "git", "log", "-1")


def test_programs_in_the_work_dir_are_never_run_outside(mngr: MngrProgram, tmp_path: Path) -> None:
    """The PATH has relative directories, in which the agent's programs would be found."""
    proof = tmp_path / "proof"
    mngr.env["PATH"] = f".:tools:{mngr.env['PATH']}:"
    program = f"#!/bin/sh\\n[ -e {mngr.env['HOME']} ] && echo $0 >> {proof}\\nexit 0\\n"
    names = "bwrap cat date env sh git python3 tmux tar rm mkdir"
    line = f"mkdir -p tools; for n in {names}; do printf '{program}' > $n; chmod +x $n; cp $n tools/; done"
    mngr(
        "create",
        "foo",
        "--sandbox",
        "-w",
        "side=sleep 1000",
        "--network",
        "allow=example.com",
        "--",
        "sleep",
        "1000",
    )
    mngr("exec", "foo", "--", "/bin/sh", "-c", line)
    mngr("exec", "foo", "--", "/bin/true")
    with (tmp_path / "user" / ".gitconfig").open() as file:
        argv = [str(BIN_DIR / "mngr"), "exec", "foo", "--", "/bin/true"]
        subprocess.run(argv, cwd=mngr.repo, env=mngr.env, stdin=file, check=True)
    mngr("diff", "foo")
    mngr("list", "--git")
    mngr("stop", "foo")
    mngr("start", "foo")
    wait_for(lambda: mngr.get_agent("foo")["state"] == "RUNNING")
    mngr("exec", "foo", "--", "/bin/sh", "-c", "rm -rf *")
    mngr("stop", "foo")
    assert not proof.exists(), proof.read_text()
