"""A sandboxed agent is an agent like any other: it works, listens, ends, moves; and what we do with its work is done inside."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from mngr.testkit.contract.program import commit_file
from tests.conftest import BIN_DIR, MngrProgram, run_git, wait_for

pytestmark = pytest.mark.agents

WORK = '[{"write": {"path": "new.txt", "content": "x"}}, {"commit": "Work"}, {"reply": "done"}, "wait", {"exit": 3}]'


def running(*words: str) -> list[int]:
    """Processes whose command line has these words at its end, wherever they are."""
    end = b"\0".join(word.encode() for word in words) + b"\0"
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().endswith(end):
                found.append(int(path.parent.name))
        except OSError:
            pass
    return found


def test_it_talks_works_commits_and_ends(mngr: MngrProgram) -> None:
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


def test_its_default_is_a_mirror_and_what_shares_files_is_refused(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--sandbox", "--", "sleep", "1000")
    assert (mngr.get_work_dir("foo") / ".git").is_dir()
    for mode in ("worktree", "none"):
        ran = mngr("create", "bar", "--sandbox", "--transfer", mode, "--", "true", code=2)
        assert f"--transfer {mode}" in ran.err and "mirror" in ran.err
    mngr("create", "bar", "--sandbox", "--transfer", "copy", "--", "sleep", "1000")
    assert not (mngr.get_work_dir("bar") / ".git").exists()


def test_without_bubblewrap_nothing_is_made(mngr: MngrProgram, tmp_path: Path) -> None:
    ran = mngr("create", "foo", "--sandbox", "--", "true", code=1, env={"PATH": str(tmp_path)})
    assert "bwrap is not installed" in ran.err and "apt-get install bubblewrap" in ran.err
    assert not mngr.home.exists()


def test_a_program_that_is_not_seen_inside_is_said_so(mngr: MngrProgram, tmp_path: Path) -> None:
    hidden = tmp_path / "tool"
    hidden.write_text("#!/bin/sh\necho here\n")
    hidden.chmod(0o755)
    mngr("create", "foo", "--sandbox", "--", "sleep", "1000")
    for word in (str(hidden), "no-such-program"):
        assert f"{word}: command not found" in mngr("exec", "foo", "--", word, code=1).err
    mngr("create", "bar", "--sandbox", "--", str(hidden))  # named by the user, so he wants it seen
    mngr("wait", "bar", "--state", "DONE")


def test_a_directory_is_shown_when_the_user_says_so_and_not_when_the_project_does(
    mngr: MngrProgram, tmp_path: Path
) -> None:
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


def test_windows_and_set_up_are_behind_the_same_walls(mngr: MngrProgram) -> None:
    secret = Path(mngr.env["HOME"]) / "secret"
    secret.write_text("hunter2")
    line = f"(cat {secret} || echo unseen) > $MNGR_OUTPUT_DIR/NAME 2>&1; ls /proc/net > /dev/null"
    mngr(
        "create", "foo", "--sandbox", "-w", f"side={line.replace('NAME', 'side')}; sleep 1000",
        "-S", f"project.setup={line.replace('NAME', 'setup')}", "--", "sleep", "1000",
    )  # fmt: skip
    outputs = mngr.get_agent_dir("foo") / "outputs"
    for name in ("side", "setup"):
        wait_for((outputs / name).exists)
        assert wait_for((outputs / name).read_text).endswith("unseen\n")


def test_stop_ends_all_that_runs_inside(mngr: MngrProgram) -> None:
    a, b = str(10**6 + os.getpid()), str(2 * 10**6 + os.getpid())
    line = f"setsid sleep {a} & setsid sleep {b} & sleep 1000"
    mngr("create", "foo", "--sandbox", "--", "sh", "-c", line)
    wait_for(lambda: running("sleep", a) and running("sleep", b))
    mngr("stop", "foo")
    assert not running("sleep", a) and not running("sleep", b)
    assert mngr.get_agent("foo")["state"] == "STOPPED"


def test_who_handles_a_signal_has_his_time(mngr: MngrProgram) -> None:
    line = 'trap "sleep 0.7; echo bye > bye; exit 0" TERM; echo ready > ready; while :; do sleep 0.05; done'
    mngr("create", "foo", "--sandbox", "--", "sh", "-c", line)
    wait_for((mngr.get_work_dir("foo") / "ready").exists)
    mngr("stop", "foo")
    assert (mngr.get_work_dir("foo") / "bye").exists()


def test_an_interrupt_reaches_the_program_and_it_alone(mngr: MngrProgram) -> None:
    program = "import time\nprint('ready')\ntry: time.sleep(1000)\nexcept KeyboardInterrupt: print('caught')\ntime.sleep(1000)"
    mngr("create", "foo", "--sandbox", "--", "python3", "-uc", program)
    wait_for(lambda: "ready" in mngr("capture", "foo").out)
    mngr.run_tmux("send-keys", "-t", "=foo:", "C-c")
    wait_for(lambda: "caught" in mngr("capture", "foo").out)
    assert mngr.get_agent("foo")["state"] == "RUNNING"


@pytest.mark.parametrize(("line", "code"), [("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)])
def test_its_end_is_written_down(mngr: MngrProgram, line: str, code: int) -> None:
    mngr("create", "foo", "--sandbox", "--", "sh", "-c", line)
    mngr("wait", "foo", "--state", "FAILED")
    assert mngr.get_agent("foo")["exit_code"] == code


def test_it_does_not_outlive_its_terminal(mngr: MngrProgram) -> None:
    mark = str(3 * 10**6 + os.getpid())
    mngr("create", "foo", "--sandbox", "--", "sh", "-c", f"trap '' HUP TERM; sleep {mark} & wait; sleep {mark}")
    wait_for(lambda: running("sleep", mark))
    mngr.run_tmux("kill-server")
    wait_for(lambda: not running("sleep", mark))


def test_without_its_walls_nothing_is_run(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--sandbox", "--", "sleep", "1000")
    (mngr.get_agent_dir("foo") / "sandbox").unlink()
    assert "its sandbox is gone" in mngr("exec", "foo", "--", "touch", "made", code=1).err
    mngr("diff", "foo", code=6)
    assert not (mngr.get_work_dir("foo") / "made").exists()
    mngr("stop", "foo")
    mngr("start", "foo")
    mngr("exec", "foo", "--", "true")


@pytest.fixture
def trapped(mngr: MngrProgram) -> MngrProgram:
    """A sandboxed agent with work, whose repository has a setting that ends every git outside its walls."""
    trap = Path(mngr.env["HOME"]) / "trap"
    trap.write_text("[broken\n")
    mngr("create", "foo", "--sandbox", "--", "sleep", "1000")
    line = f"echo x > new.txt; git add . && git commit -qm Work; echo y > loose.txt; git config include.path {trap}"
    mngr("exec", "foo", "--", "sh", "-c", line)
    broken = subprocess.run(["git", "-C", mngr.get_work_dir("foo"), "log"], capture_output=True, text=True, check=False)
    assert "bad config" in broken.stderr
    return mngr


def test_git_that_only_looks_runs_inside(trapped: MngrProgram) -> None:
    assert "+y" in trapped("diff", "foo").out and "+x" in trapped("diff", "foo", "--committed").out
    seen = trapped.run_json("list", "--git")["agents"][0]
    assert (seen["dirty"], seen["unpulled"]) == (True, 1)


def test_git_that_fetches_runs_inside(trapped: MngrProgram) -> None:
    trapped("pull", "foo")
    assert run_git(trapped.repo, "log", "-1", "--format=%s", "mngr/foo") == "Work"
    done = subprocess.run(
        ["git", "fetch", "-q", "mngr::foo", "mngr/foo:again"], cwd=trapped.repo, env=trapped.env, check=False
    )
    assert done.returncode == 0
    assert run_git(trapped.repo, "rev-parse", "again") == run_git(trapped.repo, "rev-parse", "mngr/foo")


def test_git_that_pushes_runs_inside(trapped: MngrProgram) -> None:
    head = commit_file(trapped.repo, "mine.txt")
    trapped("push", "foo", "--stash")
    assert (trapped.get_work_dir("foo") / "mine.txt").exists() and (trapped.get_work_dir("foo") / "loose.txt").exists()
    trapped("exec", "foo", "--", "git", "merge-base", "--is-ancestor", head, "HEAD")


def test_a_link_of_the_agent_leads_no_file_out(trapped: MngrProgram, tmp_path: Path) -> None:
    """What is copied to and from it is copied inside, where the link leads nowhere."""
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
def test_another_agent_is_made_from_its_work(trapped: MngrProgram, mode: str) -> None:
    trapped("create", "bar", "--from", "foo", "--transfer", mode, "--dirty", "ignore", "--", "sleep", "1000")
    assert (trapped.get_work_dir("bar") / "new.txt").read_text() == "x\n"


def test_a_clone_has_the_same_walls(trapped: MngrProgram) -> None:
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


def test_it_comes_back_from_the_graveyard_with_its_walls(trapped: MngrProgram) -> None:
    saved = trapped.run_json("destroy", "--force", "foo")["results"][0]
    assert (saved["dirty"], saved["unpulled"]) == (True, 1)
    trapped("undestroy", "foo")
    assert (trapped.get_work_dir("foo") / "loose.txt").exists()
    trapped("exec", "foo", "--", "sh", "-c", f"[ ! -e {trapped.env['HOME']} ]")
    trapped("start", "foo")
    trapped("exec", "foo", "--", "git", "log", "-1")


def test_programs_that_it_leaves_in_its_work_dir_are_not_run_outside(mngr: MngrProgram, tmp_path: Path) -> None:
    """A PATH with places that depend on where one is: what is found there is the agent's."""
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
