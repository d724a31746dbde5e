"""Tests of wrong input: the exit code, a clear error with a hint, no traceback, and nothing half-done."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import BIN_DIR, MngrProgram, ProgramResult, run_git, wait_for
from tests.support.repos import list_refs

RUN = ("--", "sleep", "1000")


def is_clear(result: ProgramResult) -> bool:
    """True when standard error is an error with a hint, without a traceback."""
    lines = result.err.rstrip("\n").split("\n")
    assert lines[0].startswith("Error: ") and lines[-1].startswith("Hint: "), result.err
    assert "Traceback" not in result.err and "bug in mngr" not in result.err and result.out == ""
    return True


def nothing_was_made(mngr: MngrProgram) -> bool:
    assert [ref for ref in list_refs(mngr.repo) if "mngr" in ref] == []
    assert run_git(mngr.repo, "worktree", "list").count("\n") == 0
    for place in ("agents", "names", "work"):
        assert not (mngr.home / place).exists() or list((mngr.home / place).iterdir()) == []
    return True


UNKNOWN = [
    (1, "there is no agent 'nobody'", "stop nobody"),
    (1, "there is no agent 'nobody'", "start nobody"),
    (1, "there is no agent 'nobody'", "exec nobody -- true"),
    (1, "there is no agent 'nobody'", "connect nobody --connect-command true"),
    (1, "there is no agent 'nobody'", "rename nobody x"),
    (1, "there is no agent 'nobody'", "label nobody a=b"),
    (1, "there is no agent 'nobody'", "limit nobody"),
    (1, "there is no agent 'nobody'", "pull nobody"),
    (1, "there is no agent 'nobody'", "pull nobody:x"),
    (1, "there is no agent 'nobody'", "push nobody"),
    (1, "there is no agent 'nobody'", "push README.md nobody:x"),
    (1, "there is no agent 'nobody'", "diff nobody"),
    (1, "there is no agent 'a-0123456789ab'", "stop a-0123456789ab"),
    (1, "is not a directory, an agent or a URL", "create x --from no/where -- true"),
    (1, "there is no agent 'nobody'", "create x --from nobody -- true"),
    (1, "no agent kind 'comand'", "create x comand"),
    (1, "mngr does not know what to run", "create x"),
    (6, "no-such-box.invalid cannot be reached", "create x@no-such-box.invalid -- true"),
    (2, "there is no provider 'nowhere'", "create x@.nowhere -- true"),
    (2, "nothing follows the @", "create x@ -- true"),
    (2, "'modal' is a provider, not a host", "create x@modal -- true"),
    (2, "'modal' is a provider, not a host", "map a --on modal -- true"),
    (2, "--network cannot be 'OFF'", "map a --on .modal --network OFF -- true"),
    (2, "--agents-per-host", "map a --on .modal --agents-per-host=-1 -- true"),
    (2, "--agents-per-host works only with hosts that a provider creates", "map a --on @h1.modal --agents-per-host 2 -- true"),
    (2, "[providers.slurm] shared must be true or false, not 'maybe'", "map a --on .slurm -S providers.slurm.shared=maybe -- true"),
    (2, "[providers.modal] cpus must be a number that is 0 or more, not 'lots'", "map a --on .modal -S providers.modal.cpus=lots -- true"),
    (1, "--sandbox does not work on modal hosts", "map a --on .modal --sandbox -- true"),
    (2, "names a file, not a new agent", "create x:path -- true"),
    (1, "mngr cannot start or stop local hosts", "stop @local"),
    (2, "there is no state 'BUSY'", "list --state BUSY"),
    (2, "there is no field 'colour'", "list --fields colour"),
    (2, "there is no field 'colour'", "list --sort colour"),
    (2, "there is no field 'colour'", "list --filter colour==red"),
    (2, "there is no setting 'colour.of'", "list -S colour.of=red"),
    (2, "is not KEY=VALUE", "list -S colour"),
    (2, "mngr create has no option --colour", "create x --colour red -- true"),
    (2, "mngr list has no option -x", "list -x"),
    (2, "--branch needs a value", "create x --branch"),
    (2, "--transfer cannot be 'magic'", "create x --transfer magic -- true"),
    (2, "--dirty cannot be 'maybe'", "create x --dirty maybe -- true"),
    (2, "--count needs a whole number", "create x --count many -- true"),
    (2, "--idle-timeout", "create x --idle-timeout=-1 -- true"),
    (2, "is not a length of time", "stop x --grace soon"),
    (2, "mngr create does not take 'c'", "create a b c"),
    (2, "mngr stop needs NAME", "stop"),
    (2, "mngr has no command 'lst'", "lst"),
    (2, "mngr snapshot has no command 'make'", "snapshot make"),
    (2, "no command after --nosuch", "--nosuch"),
    (2, "no command after --home", "--home"),
    (2, "'x:out/a.json' names a file, not an agent", "destroy x:out/a.json"),
    (2, "'x:sub' names a file, not an agent", "exec x:sub -- pwd"),
    (2, "--branch has no effect", "create x --transfer copy --branch :y -- true"),
    (2, "-m and --message-file", "create x -m hi --message-file README.md -- true"),
    (1, "cannot read", "create x --message-file nowhere -- true"),
    (1, "cannot read", "create x --env-file nowhere -- true"),
    (1, "NOT_SET is not set", "create x --pass-env NOT_SET -- true"),
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("code", "said", "line"), UNKNOWN, ids=[row[2] for row in UNKNOWN])
def test_unknown_names_and_wrong_options_fail_with_a_hint(mngr: MngrProgram, code: int, said: str, line: str) -> None:
    result = mngr(*line.split(), code=code)
    assert said in result.err and is_clear(result)
    assert not mngr.home.exists() and nothing_was_made(mngr)


@pytest.mark.parametrize(
    "name",
    [
        "Upper",
        "a b",
        "a/b",
        "..",
        ".",
        "-x-",
        "_x",
        "a.b",
        "é",
        "a" * 64,
        "a\nb",
        "a\x1b[31m",
        "a@b@c",
        "",
        "a-0123456789ab",
        "名",
    ],
)
def test_create_rejects_invalid_agent_names(mngr: MngrProgram, name: str) -> None:
    result = mngr("create", name, *RUN, code=2)
    assert is_clear(result)
    assert "\x1b" not in result.err and nothing_was_made(mngr)


def test_a_name_of_63_characters_works_and_a_longer_one_fails(mngr: MngrProgram) -> None:
    name = "a" * 63
    mngr("create", name, *RUN)
    assert mngr.get_agent(name)["state"] == "RUNNING"
    assert "is not a valid name" in mngr("create", "a" * 62, "--count", "2", *RUN, code=2).err


# ---- directories and repositories


def test_a_run_outside_a_git_repository_names_the_commands_that_make_one(mngr: MngrProgram, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    result = mngr("tmr", "run", "--dry-run", cwd=plain, code=1)
    assert "is not in a git repository" in result.err and "git init && git add -A && git commit -m start" in result.err


def test_create_outside_a_git_repository_fails(mngr: MngrProgram, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    for words in (
        ("create", "foo", "--transfer", "worktree", *RUN),
        ("create", "foo", "--transfer", "mirror", *RUN),
    ):
        result = mngr(*words, cwd=plain, code=1)
        assert "is not in a git repository" in result.err and is_clear(result)
    assert not mngr.home.exists()


def test_create_in_a_repository_without_commits_fails(mngr: MngrProgram, tmp_path: Path) -> None:
    run_git(tmp_path, "init", "-q", "young")
    result = mngr("create", "foo", *RUN, cwd=tmp_path / "young", code=1)
    assert "has no commits" in result.err and is_clear(result) and not mngr.home.exists()


def test_create_fails_with_a_dirty_tree_or_a_branch_in_use(mngr: MngrProgram) -> None:
    run_git(mngr.repo, "branch", "taken")
    (mngr.repo / "new.txt").write_text("x")
    for words, message in (
        ((), "uncommitted changes: new.txt"),
        (("--dirty", "ignore", "--branch", ":taken"), "there is already a branch 'taken'"),
        (("--dirty", "ignore", "--branch", "main"), f"is checked out at {mngr.repo}"),
    ):
        result = mngr("create", "foo", *words, *RUN, code=1)
        assert message in result.err and is_clear(result) and nothing_was_made(mngr)
    assert list(list_refs(mngr.repo)) == ["refs/heads/main", "refs/heads/taken"]


@pytest.mark.parametrize("missing", ["git", "tmux"])
def test_create_names_a_missing_program_and_list_still_works(mngr: MngrProgram, tmp_path: Path, missing: str) -> None:
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in "sh env git tmux tar awk date grep tr sort mkdir rm chmod cat sleep ps pkill pgrep sed xargs find dirname".split():
        if name != missing:
            (directory / name).symlink_to(shutil.which(name) or "/bin/false")
    result = mngr("create", "foo", *RUN, env={"PATH": str(directory)}, code=1)
    assert f"{missing} is not installed" in result.err and is_clear(result) and nothing_was_made(mngr)
    assert mngr("list", env={"PATH": str(directory)}).code == 0


def test_commands_fail_clearly_in_a_deleted_directory(mngr: MngrProgram, tmp_path: Path) -> None:
    directory = tmp_path / "gone"
    for words in (["list"], ["create", "foo", *RUN], ["stop", "foo"], ["list", "--home", "relative"]):
        directory.mkdir()
        line = 'cd "$1"; rmdir "$1"; shift; exec "$@"'
        argv = ["sh", "-c", line, "sh", str(directory), str(BIN_DIR / "mngr"), *words]
        process = subprocess.run(argv, env=mngr.env, capture_output=True, text=True, check=False)
        assert process.returncode == 1 and is_clear(ProgramResult(tuple(argv), 1, process.stdout, process.stderr))
        assert "the current directory no longer exists" in process.stderr


def test_commands_fail_clearly_after_the_work_dir_is_deleted(mngr: MngrProgram) -> None:
    for name, mode in (("tree", "worktree"), ("own", "mirror")):
        mngr("create", name, "--transfer", mode, *RUN)
        shutil.rmtree(mngr.get_work_dir(name))
        for words in (
            ("exec", name, "--", "true"),
            ("diff", name),
            ("push", name),
            ("pull", f"{name}:x"),
            ("create", "x", "--from", name, *RUN),
        ):
            result = mngr(*words, code=1)
            assert is_clear(result), words
        mngr("stop", name)
        assert "no longer exists" in mngr("start", name, code=1).err
    assert mngr("pull", "tree").out.startswith("mngr/tree is at ")
    assert is_clear(mngr("pull", "own", code=1))
    assert [(a["state"], a["dirty"]) for a in mngr.run_json("list", "--git")["agents"]] == [("STOPPED", None)] * 2


def test_agents_keep_working_after_the_source_repository_is_deleted(mngr: MngrProgram, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(mngr.repo, source, symlinks=True)
    for name, mode in (("tree", "worktree"), ("own", "mirror")):
        mngr("create", name, "--transfer", mode, *RUN, cwd=source)
    shutil.rmtree(source)
    assert mngr("exec", "tree", "own", "--", "ls").out.count("README.md") == 2
    assert is_clear(mngr("diff", "tree", code=1)) and mngr("diff", "own").out == ""
    assert is_clear(mngr("pull", "tree", code=1))
    mngr("pull", "own")
    for name in ("tree", "own"):
        mngr("stop", name)
        mngr("start", name)
    assert [(a["name"], a["state"], a["dirty"]) for a in mngr.run_json("list", "--git")["agents"]] == [
        ("tree", "RUNNING", None), ("own", "RUNNING", False),
    ]  # fmt: skip


# ---- homes


def test_a_home_with_files_of_another_program_is_rejected(mngr: MngrProgram) -> None:
    mngr.home.mkdir()
    (mngr.home / "theirs.db").write_text("x")
    for words in (("create", "foo", *RUN), ("list",), ("stop", "foo")):
        result = mngr(*words, code=1)
        assert "belongs to another program" in result.err and is_clear(result)
    assert [p.name for p in mngr.home.iterdir()] == ["theirs.db"]
    (mngr.home / "version").write_text("theirs 3\n")
    assert "belongs to another program" in mngr("create", "foo", *RUN, code=1).err


def test_a_home_of_a_newer_version_is_rejected(mngr: MngrProgram) -> None:
    mngr.home.mkdir()
    (mngr.home / "version").write_text("mngr 99\n")
    for words in (("create", "foo", *RUN), ("list",)):
        result = mngr(*words, code=1)
        assert "it has layout 99" in result.err and is_clear(result)
    assert [p.name for p in mngr.home.iterdir()] == ["version"]


def test_a_home_that_is_a_file_is_rejected(mngr: MngrProgram) -> None:
    mngr.home.write_text("a file")
    for words in (("create", "foo", *RUN), ("list",), ("list", "--home", str(mngr.home / "below"))):
        assert is_clear(mngr(*words, code=1))
    assert mngr.home.read_text() == "a file"


def kill_tmux_server(home: Path) -> None:
    """Kill the tmux server of a home, as the fixture does for its own home."""
    socket = os.readlink(home / "tmux.socket")
    subprocess.run(["tmux", "-S", socket, "kill-server"], check=False)
    Path(socket).unlink(missing_ok=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A 3 MB disk for the home, or a plain directory where the test may not mount one."""
    directory = tmp_path / "disk"
    directory.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(directory)]
    mounted = os.getuid() == 0 and subprocess.run(words, capture_output=True, check=False).returncode == 0
    yield directory
    if mounted:
        subprocess.run(["umount", "-l", str(directory)], check=False)


def run_with_size_limit(mngr: MngrProgram, home: Path, *words: str, size: int = 100_000) -> ProgramResult:
    """Run mngr with a limit on file sizes, which acts like a full disk where none can be mounted."""
    argv = ["prlimit", f"--fsize={size}", str(BIN_DIR / "mngr"), "--home", str(home), *words]
    env = {**mngr.env, "PYTHONDONTWRITEBYTECODE": "1"}  # Python 3.11 would leave half a compiled module
    process = subprocess.run(argv, cwd=mngr.repo, env=env, capture_output=True, text=True, check=False)
    return ProgramResult(tuple(argv), process.returncode, process.stdout, process.stderr)


@pytest.mark.parametrize("mode", ["worktree", "mirror", "copy"])
def test_create_leaves_nothing_behind_when_the_disk_fills_up(mngr: MngrProgram, disk: Path, mode: str) -> None:
    (mngr.repo / "big").write_bytes(os.urandom(4_000_000))
    run_git(mngr.repo, "add", "-A")
    run_git(mngr.repo, "commit", "-q", "-m", "big")
    home = disk / "home"
    if os.path.ismount(disk):
        result = mngr("--home", str(home), "create", "foo", "--transfer", mode, *RUN, code=1)
    else:
        result = run_with_size_limit(mngr, home, "create", "foo", "--transfer", mode, *RUN)
        assert result.code == 1
    assert is_clear(result)
    assert mngr("--home", str(home), "list", "--ids").out == ""
    assert list((home / "work").iterdir()) == [] == list((home / "agents").iterdir())
    assert nothing_was_made(mngr)


def test_a_record_is_written_whole_or_not_at_all(mngr: MngrProgram) -> None:
    for size in (10, 200):
        result = run_with_size_limit(mngr, mngr.home, "create", "foo", *RUN, size=size)
        assert result.code == 1 and is_clear(result) and "free some disk space" in result.err
    mngr("create", "foo", *RUN)
    before = (mngr.get_agent_dir("foo") / "agent.json").read_bytes()
    result = run_with_size_limit(mngr, mngr.home, "label", "foo", "a=b", size=200)
    assert result.code == 1 and is_clear(result)
    assert (mngr.get_agent_dir("foo") / "agent.json").read_bytes() == before
    assert not list(mngr.get_agent_dir("foo").glob("*.new"))


def test_a_full_disk_leaves_existing_agents_unchanged(mngr: MngrProgram, disk: Path) -> None:
    home = disk / "home"
    mngr("--home", str(home), "create", "first", "--transfer", "none", *RUN)
    if os.path.ismount(disk):
        fd = os.open(disk / "filler", os.O_WRONLY | os.O_CREAT)
        with pytest.raises(OSError, match="No space"):
            while True:
                os.write(fd, b"x" * 1000)
        os.close(fd)
        result = mngr("--home", str(home), "create", "foo", *RUN, code=1)
        assert is_clear(result) and "free some disk space" in result.err
        assert is_clear(mngr("--home", str(home), "label", "first", "a=b", code=1))
        (disk / "filler").unlink()
    rows = mngr.run_json("--home", str(home), "list")["agents"]
    assert [(a["name"], a["state"], a["labels"]) for a in rows] == [("first", "RUNNING", {})]
    kill_tmux_server(home)
    assert nothing_was_made(mngr)


def test_a_read_only_home_fails_clearly_and_can_still_be_listed(mngr: MngrProgram, disk: Path) -> None:
    home = disk / "home"
    mngr("--home", str(home), "create", "first", "--transfer", "none", *RUN)
    if os.path.ismount(disk):
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    elif os.getuid():
        subprocess.run(["chmod", "-R", "a-w", str(home)], check=True)
    if os.path.ismount(disk) or os.getuid():
        for words in (
            ("create", "foo", *RUN),
            ("label", "first", "a=b"),
            ("rename", "first", "x"),
            ("limit", "first", "--idle", "1h"),
        ):
            result = mngr("--home", str(home), *words, code=1)
            assert is_clear(result), words
            assert "ead-only" in result.err or "ermission" in result.err, result.err
        result = mngr("--home", str(disk / "other"), "create", "foo", *RUN, code=1)
        assert is_clear(result) or os.getuid()
    assert [a["name"] for a in mngr.run_json("--home", str(home), "list")["agents"]] == ["first"]
    kill_tmux_server(home)
    subprocess.run(["chmod", "-R", "u+w", str(home)], capture_output=True, check=False)
    assert nothing_was_made(mngr)


# ---- tmux


def test_commands_work_after_the_tmux_server_died(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    mngr.run_tmux("kill-server")
    wait_for(lambda: mngr.get_agent("foo")["state"] == "FAILED")
    assert mngr("stop", "foo").out == "foo had ended already (FAILED)\n"
    assert mngr("exec", "foo", "--", "echo", "here").out == "here\n"
    mngr("rename", "foo", "bar")
    mngr("label", "bar", "a=b")
    mngr("create", "new", *RUN)
    assert {a["name"]: a["state"] for a in mngr.list_agents()} == {"bar": "FAILED", "new": "RUNNING"}


def test_a_socket_directory_of_another_user_is_rejected(mngr: MngrProgram, tmp_path: Path) -> None:
    """A server of another user would get the environment, and could answer anything."""
    other_dir = tmp_path / "theirs" if os.getuid() == 0 else Path("/usr")
    other_dir.mkdir(exist_ok=True)
    if os.getuid() == 0:
        os.chown(other_dir, 12345, 12345)
    mngr("create", "foo", *RUN)
    own_socket = os.readlink(mngr.home / "tmux.socket")
    (mngr.home / "tmux.socket").unlink()
    (mngr.home / "tmux.socket").symlink_to(other_dir / "socket")
    try:
        agent = mngr.get_agent("foo")
        assert (agent["state"], agent["state_reason"]) == ("UNKNOWN", "tmux does not answer")
        for words in (
            ("create", "bar", "--branch", ":b", *RUN),
            ("rename", "foo", "x"),
            ("limit", "foo", "--idle", "1h"),
        ):
            result = mngr(*words, code=1)
            assert f"{other_dir} does not belong to you" in result.err and is_clear(result), words
        assert [a["name"] for a in mngr.list_agents()] == ["foo"]
    finally:
        (mngr.home / "tmux.socket").unlink()
        (mngr.home / "tmux.socket").symlink_to(own_socket)
    assert mngr.get_agent("foo")["state"] == "RUNNING"
    assert mngr.run_json("limit", "foo")["results"][0]["idle_timeout"] is None


# ---- crashes


def write_plugin(directory: Path, body: str) -> dict[str, str]:
    """Write a plugin and return the environment that puts it on the import path."""
    folder = directory / "boom-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "entry_points.txt").write_text("[mngr]\nboom = boom\n")
    (directory / "boom.py").write_text("import sys\nimport pluggy\nhook = pluggy.HookimplMarker('mngr')\n" + body)
    return {"PYTHONPATH": str(directory)}


COMMAND = """
from mngr.cli.framework.command_spec import Argument, CommandSpec, Option
COMMAND = CommandSpec(name="boom", summary="x", arguments=(Argument(name="WHAT", help="x", required=False),),
    options=(Option(flags=("-t", "--token"), metavar="T", help="x"),))
def run(cli, args):
    raise ZeroDivisionError("by us")
@hook
def mngr_commands():
    return [sys.modules[__name__]]
"""


def test_a_crash_prints_two_lines_and_writes_a_log_without_secrets(mngr: MngrProgram, tmp_path: Path) -> None:
    env = write_plugin(tmp_path / "plugins", COMMAND)
    mngr("create", "foo", *RUN)
    words = ["hunter2", "--token", "hunter3", "--token=hunter4", "-thunter5", "-t", "--hunter6"]
    result = mngr("boom", *words, env={**env, "SECRET": "hunter7"}, code=3)
    error, hint = result.err.splitlines()
    assert error == "Error: this is a bug in mngr: ZeroDivisionError" and hint.startswith("Hint: ") and result.out == ""
    log = Path(hint.rpartition(": ")[2])
    assert log.parent == mngr.home / "crashes" and log.stat().st_mode & 0o777 == 0o600
    text = log.read_text()
    assert "ZeroDivisionError: by us" in text and "boom.py" in text and "hunter" not in text
    other = tmp_path / "other"
    other.mkdir()
    assert "boom … --token … --token … -t … -t …" in text
    for flags in (["--home", str(other)], [f"--home={other}"]):
        assert str(other / "crashes") in mngr(*flags, "boom", env=env, code=3).err


def test_a_crash_log_contains_no_secret_from_the_error_or_the_environment(mngr: MngrProgram, tmp_path: Path) -> None:
    token = "gh" + "p_" + "a1B2" * 9
    body = COMMAND.replace('"by us"', f'"cannot use {token} and hunter7-hunter7"')
    env = write_plugin(tmp_path / "plugins", body)
    result = mngr("boom", env={**env, "MY_SECRET": "hunter7-hunter7"}, code=3)
    text = Path(result.err.splitlines()[1].rpartition(": ")[2]).read_text()
    assert "ZeroDivisionError: cannot use [redacted: a GitHub token] and [redacted: MY_SECRET]" in text
    assert "hunter7" not in text and token[8:16] not in text


def test_a_failing_plugin_hook_undoes_the_creation(mngr: MngrProgram, tmp_path: Path) -> None:
    body = "@hook\ndef mngr_step(home, operation, step, agent):\n    if step == 'launch':\n        raise KeyError('mine')\n"
    result = mngr("create", "foo", *RUN, env=write_plugin(tmp_path / "plugins", body), code=1)
    assert "a plugin failed in mngr_step: KeyError" in result.err and is_clear(result)
    assert nothing_was_made(mngr) and mngr.list_agents() == []
