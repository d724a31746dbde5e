"""Tests clean rooms and test runs in them: clean at each start, without leftovers, and with the correct outcome."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mngr import AgentSpec, Fleet
from mngr.base.errors import MngrError
from mngr.base.json_structs import decode, encode
from mngr.tmr.cleanroom.clean_rooms import CleanRoomOptions, CleanRoomPool
from mngr.tmr.cleanroom.sandbox import CleanRoomSandbox
from mngr.tmr.prepare import code_location_check
from mngr.tmr.prepare.code_location_check import map_locations
from mngr.tmr.runners.pytest.runner import PytestOptions, PytestRunner
from mngr.tmr.runners.test_run import ProgramLocation, ResolvedCode, RunOptions, TestRun
from tests.conftest import BIN_DIR, run_git, wait_for
from tests.support.hosts.sshd import Farm
from tests.tmr.world import BARE, PYTEST, World, new_world

FILES = {
    "tally/__init__.py": """
        def add(a, b):
            return a + b


        def load(table, name):
            return table[name]
        """,
    "tests/test_tally.py": '''
        import os
        import subprocess
        import sys
        import time

        import pytest
        from pytest import mark

        from tally import add, load


        def test_adds():
            """Adds two numbers.

            Tutorial block:
                tally add 1 2
            """
            assert add(1, 2) == 3


        @pytest.mark.parametrize("n", [1, "a b", "it's"])
        @pytest.mark.slow_one
        def test_times(n):
            assert add(n, n) == n * 2


        class TestTable:
            def test_load(self):
                print("looking")
                load({}, "x")


        @pytest.fixture
        def broken():
            raise RuntimeError("no database")


        def test_fixture(broken):
            pass


        @mark.skipif(True, reason="not here")
        def test_skipped():
            pass


        @mark.xfail(reason="known")
        def test_expected():
            assert False


        def test_hangs():
            time.sleep(600)


        def test_dies():
            os._exit(0)


        def test_leaves():
            line = "import os, time; os.setsid(); open('pid.log', 'w').write(str(os.getpid())); time.sleep(600)"
            subprocess.Popen([sys.executable, "-c", line])
            while not os.path.exists("pid.log") or not open("pid.log").read():
                time.sleep(0.01)
            os.rename("pid.log", os.path.expanduser("~/pid"))


        def test_is_clean():
            assert sorted(os.listdir(".")) == [".git", ".gitignore", "README.md", *FILES]
            assert "MNGR_OBSERVER" not in "".join(os.environ) and "PYTHONPATH" not in os.environ
            open("dirt", "w").close()
            open("dirt.log", "w").close()
            open("README.md", "w").close()


        FILES = ["notes.txt", "pytest.ini", "src", "tally", "tests"]
        ''',
    "pytest.ini": "[pytest]\nmarkers = slow_one\naddopts = -p no:cacheprovider\n",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with new_world(tmp_path_factory.mktemp("rooms"), FILES) as world:
        yield world


def test_collecting_returns_pytests_tests_with_ids_docstrings_and_markers(world: World) -> None:
    collected = world.collected
    assert collected.errors == []
    assert [test.name for test in collected.tests][:3] == ["test_adds", "test_times", "test_load"]
    adds, times, load = collected.tests[:3]
    assert (adds.id, adds.path, adds.line) == ("tests/test_tally.py::test_adds", "tests/test_tally.py", 13)
    assert adds.doc.startswith("Adds two numbers.\n\nTutorial block:\n    tally add 1 2")
    assert times.ids == [f"{times.id}[{n}]" for n in ("1", "a b", "it's")] and "slow_one" in times.markers
    assert load.id == "tests/test_tally.py::TestTable::test_load"
    assert code_location_check.describe_foreign_code(collected.resolved) == []


def test_a_passing_run_records_its_command_ids_and_imported_files(world: World) -> None:
    run = world.run("test_times")
    assert (run.outcome, run.why, run.failures, run.missing) == ("pass", "", [], [])
    assert set(run.ids.values()) == {"pass"} and len(run.ids) == 3
    assert shlex.split(run.command) == [*PYTEST, run.test]
    assert run.imported_from == {"tally": "tally/__init__.py"} and run.wrong_code == []
    assert run.cpu > 0 and run.seconds > 0
    assert decode(TestRun, encode(run)) == run


def test_a_failing_run_records_exception_frames_and_output(world: World) -> None:
    run = world.run("test_load")
    assert (run.outcome, run.why) == ("fail", "KeyError: 'x'")
    (failure,) = run.failures
    assert (failure.when, failure.exception, failure.message) == ("call", "KeyError", "'x'")
    frames = [(frame.path, frame.function) for frame in failure.frames if frame.project]
    assert frames == [("tests/test_tally.py", "test_load"), ("tally/__init__.py", "load")]
    assert failure.sections == {"Captured stdout call": "looking\n"} and "KeyError" in failure.text
    assert decode(TestRun, encode(run)) == run


@pytest.mark.parametrize(
    ("name", "outcome", "why"),
    [
        ("test_fixture", "error", "RuntimeError: no database"),
        ("test_skipped", "skip", "Skipped: not here"),
        ("test_expected", "skip", "xfail: known"),
        ("test_dies", "crash", "pytest itself ended during the test: exit code 0"),
    ],
)
def test_errors_skips_and_crashes_have_their_own_outcomes(world: World, name: str, outcome: str, why: str) -> None:
    run = world.run(name)
    assert (run.outcome, run.why) == (outcome, why)


def test_a_hanging_test_is_interrupted_and_its_traceback_recorded(world: World) -> None:
    for timeout in (1.5, 5, 20):  # on a busy machine pytest may need longer to reach the test
        run = world.run("test_hangs", timeout=timeout)
        assert (run.outcome, run.why) == ("timeout", f"it did not finish within {timeout:g} s")
        if run.failures and run.failures[0].frames:
            break
    assert [frame.function for frame in run.failures[0].frames][-1] == "test_hangs"


def test_processes_that_a_test_leaves_are_killed(world: World) -> None:
    run = world.run("test_leaves")
    assert (run.outcome, run.left) == ("pass", 1)
    pid = (world.root / "user/pid").read_text()
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"))


def test_an_orphaned_process_that_has_ended_is_reaped(world: World) -> None:
    script = "pid=$(sleep 0.1 >/dev/null & echo $!); while kill -0 $pid 2>/dev/null; do sleep 0.02; done"
    assert not world.room.run(["sh", "-c", script], timeout=5.0).timed_out


def test_a_command_ends_when_its_caller_is_killed(world: World) -> None:
    """The scheduler may be killed at any moment, and nobody else knows of the command."""
    room = world.room
    program = "import sys; from mngr import Fleet; from mngr.tmr.cleanroom.clean_room import CleanRoom; CleanRoom(Fleet(sys.argv[1]), *sys.argv[2:]).run("
    program += "['sh', '-c', 'echo $$ >~/asked; exec sleep 600'])"
    argv = [
        str(BIN_DIR / "python"),
        "-c",
        program,
        str(world.root / "home"),
        room.name,
        room.work_dir,
        room.commit,
        room.repo,
    ]
    pid_file = world.root / "user/asked"
    with subprocess.Popen(argv) as process:
        pid = wait_for(lambda: pid_file.exists() and pid_file.read_text().strip())
        process.kill()
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"))


def test_every_run_starts_in_a_clean_workspace(world: World) -> None:
    for _ in range(2):
        run = world.run("test_is_clean")
        assert run.outcome == "pass", run.failures


def test_a_missing_test_is_an_error_with_pytests_message(world: World) -> None:
    missing_test = world.test("test_adds").replace(id="tests/test_tally.py::test_gone", ids=[])
    run = PytestRunner(PytestOptions(pytest=PYTEST)).run_test(world.room, missing_test)
    assert run.outcome == "error" and "test_gone" in run.why
    assert run.failures[0].when == "collect"


def test_collection_errors_are_reported(world: World) -> None:
    bad_commit = world.write(
        {"tests/test_bad.py": "from tally import nothing\n", "tests/test_worse.py": "def f(:\n"},
    )
    rooms = CleanRoomPool(world.fleet, "bad", str(world.repo), CleanRoomOptions(env=BARE))
    with contextlib.closing(rooms), rooms.acquire(bad_commit) as room:
        collected = PytestRunner(PytestOptions(pytest=PYTEST)).collect(room)
    assert len(collected.errors) == 2 == len(collected.failures)
    assert "cannot import name 'nothing'" in collected.errors[0] and "SyntaxError" in collected.errors[1]
    assert collected.failures[0].exception == "ImportError" and collected.failures[0].when == "collect"
    missing_path = PytestRunner(PytestOptions(pytest=PYTEST)).collect(world.room, ["tests/nowhere.py"])
    assert missing_path.tests == [] and "nowhere.py" in missing_path.errors[0]
    bad_option = PytestRunner(PytestOptions(pytest=PYTEST, args=["--no-such-option"])).collect(world.room)
    assert "--no-such-option" in bad_option.errors[0]


def test_a_clean_room_reads_writes_and_pulls_files_and_runs_commands(world: World, tmp_path: Path) -> None:
    data = bytes(range(256)) * 1000
    world.room.write("out/data.bin", data)
    assert world.room.read("out/data.bin") == data
    outcome = world.room.run(["sh", "-c", "ls out; echo no >&2; exit 3"], clean=False, env={"X": "y"})
    assert (outcome.code, outcome.out, outcome.err) == (3, "data.bin\n", "no\n")
    assert world.room.pull("out", str(tmp_path / "came")) == str(tmp_path / "came")
    assert (tmp_path / "came/data.bin").read_bytes() == data
    assert world.room.run(["printenv", "X"], env={"X": "y z"}).out == "y z\n"
    assert world.room.run(["no-such-program"]).code == 127
    assert world.room.run(["sh", "-c", "kill -9 $$"]).code == -9
    with pytest.raises(MngrError, match="No such file"):
        world.room.read("out/data.bin")


def test_only_the_end_of_a_long_output_is_kept(world: World) -> None:
    outcome = world.room.run(["sh", "-c", "yes | head -c 50000000; echo end"])
    assert outcome.code == 0 and outcome.out.endswith("y\nend\n") and len(outcome.out) == 1 << 16


def test_imports_from_outside_the_workspace_are_reported(world: World) -> None:
    """The environment has the user's checkout, or an installed copy, before the workspace on its path."""
    script = 'PYTHONPATH="$0:$PYTHONPATH" PYTHONSAFEPATH=1 exec "$@"'
    options = PytestOptions(pytest=["sh", "-c", script, str(world.repo), *PYTEST])
    run = PytestRunner(options).run_test(world.room, world.test("test_adds"), RunOptions(resolve=True))
    assert run.outcome == "pass"
    assert run.wrong_code[0] == f"the tests imported tally from {world.repo}/tally/__init__.py"
    (problem,) = code_location_check.describe_foreign_code(run.resolved)
    assert problem.startswith(f"`import tally` loads {world.repo}/tally/__init__.py, which is outside the workspace")
    installed_copy = ResolvedCode(packages={"tally": ".venv/lib/python3/site-packages/tally/__init__.py"})
    assert "installed copy" in code_location_check.describe_foreign_code(installed_copy)[0]


def test_programs_from_outside_the_workspace_are_reported(world: World) -> None:
    script = ProgramLocation(path="/usr/bin/tally", module="tally", code="/home/me/tally/tally/__init__.py")
    (problem,) = code_location_check.describe_foreign_code(ResolvedCode(scripts={"tally": script}))
    assert "the program tally (/usr/bin/tally) runs /home/me/tally" in problem
    own_script = script.replace(code="tally/__init__.py")
    assert code_location_check.describe_foreign_code(ResolvedCode(scripts={"tally": own_script}), "tally") == []
    collected = PytestRunner(PytestOptions(pytest=PYTEST)).collect(world.room, program="ls")
    (outside,) = code_location_check.describe_foreign_code(collected.resolved, "ls")
    assert "outside the workspace" in outside


def test_a_command_that_is_no_pytest_is_named_in_the_error(world: World) -> None:
    collected = PytestRunner(PytestOptions(pytest=["no-such-pytest"])).collect(world.room)
    assert collected.tests == [] and "no-such-pytest" in collected.errors[0]


def test_a_closed_pool_leaves_no_agent_and_no_trash(world: World) -> None:
    run = "other-run"
    rooms = CleanRoomPool(world.fleet, run, str(world.repo), CleanRoomOptions(env=BARE), at_once=1)
    name = f"tmr-{run}-clean-room-1"
    room_of_killed_run = AgentSpec(address=name, command=["true"], transfer="mirror", labels={"role": "clean-room"})
    world.fleet.create(room_of_killed_run)
    with rooms.acquire(world.base) as room:
        assert (room.name, room.commit) == (name, world.base)
        assert len(room.tree) == 40 and room.tree != room.commit
    rooms.close()
    names = [agent.name for agent in world.fleet.list().agents]
    assert names == [world.room.name] and world.list_trash() == []
    assert os.listdir(world.root / "home/work") == [world.room.name]


@pytest.mark.parametrize("has_trusted_base", [True, False])
def test_files_of_git_lfs_have_the_content_that_the_users_repository_has(world: World, has_trusted_base: bool) -> None:
    content = "large\n" * 1000
    oid = hashlib.sha256(content.encode()).hexdigest()
    store = world.repo / ".git/lfs/objects" / oid[:2] / oid[2:4]
    store.mkdir(parents=True)
    (store / oid).write_text(content)
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {len(content)}\n"
    names = {"large.bin": pointer, "plain.txt": pointer, "missing.bin": pointer.replace(oid, "0" * 64)}
    commit = world.write({".gitattributes": "*.bin filter=lfs -text\n", **names})
    options = CleanRoomOptions(env=BARE, trusted_commit=world.base if has_trusted_base else None)
    rooms = CleanRoomPool(world.fleet, "lfs", str(world.repo), options, at_once=1)
    with contextlib.closing(rooms), rooms.acquire(commit) as room:
        for _ in range(2):
            shown = room.run(["cat", *names])
            assert shown.out == content + pointer + names["missing.bin"]
            assert room.run(["sh", "-c", "rm large.bin; ln -s plain.txt large.bin"], clean=False).code == 0
    shutil.rmtree(world.repo / ".git/lfs")
    run_git(world.repo, "reset", "-q", "--hard", world.base)


def test_commands_do_not_search_the_python_that_runs_mngrs_programs(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool that manages Python versions puts a script in the place of `python3`, which starts many processes."""
    log, script = tmp_path / "log", tmp_path / "bin/python3"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\necho started >>{log}\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    rooms = CleanRoomPool(world.fleet, "script", str(world.repo), CleanRoomOptions(env=BARE), at_once=1)
    with contextlib.closing(rooms), rooms.acquire(world.base) as room:
        before = log.read_text()
        assert room.run(["true"]).code == 0 and room.run(["true"]).code == 0
        assert log.read_text() == before


def test_only_leftover_clean_rooms_of_a_killed_run_are_removed(world: World) -> None:
    spec = AgentSpec(command=["sleep", "1000"], transfer="mirror", labels={"role": "clean-room", "run": "dead"})
    leftover = world.fleet.create(spec.replace(address="tmr-dead-clean-room-1"))
    agent_with_work = world.fleet.create(spec.replace(address="work", labels={"run": "dead"}))
    agent_in_worktree = world.fleet.create(spec.replace(address="tree", transfer=None))
    try:
        assert CleanRoomPool(world.fleet, "dead", str(world.repo)).remove_leftovers() == [leftover.name]
        outcomes = world.fleet.discard_clean_rooms([agent_with_work.name, agent_in_worktree.name, "nobody"])
        assert [outcome.ok for outcome in outcomes] == [False] * 3
        assert outcomes[0].error == "work is not a clean room and may hold work, so mngr does not delete it"
        assert sorted(agent.name for agent in world.fleet.list().agents) == sorted([world.room.name, "tree", "work"])
    finally:
        world.fleet.destroy([agent_with_work.name, agent_in_worktree.name], force=True)
    assert not os.path.exists(leftover.work_dir) and sorted(world.list_trash()) == ["tree", "work"]


# A virtual environment whose programs are not what they seem. Only the tests may run them, in their sandbox.
FOREIGN_PROGRAMS = """
mkdir -p .venv/bin && echo 'version = 3.11' >.venv/pyvenv.cfg && ln -s "$(command -v python3)" .venv/bin/python
for name in python3 git bwrap sh chmod; do echo "#!/bin/sh\\necho $name >>$HOME/foreign" >.venv/bin/$name; done
chmod 755 .venv/bin/git .venv/bin/python3 .venv/bin/bwrap .venv/bin/sh .venv/bin/chmod
"""


@pytest.mark.parametrize("sandbox", [None, CleanRoomSandbox()])
def test_the_environment_that_setup_created_is_active_for_the_tests_only(
    tmp_path: Path, sandbox: CleanRoomSandbox | None
) -> None:
    settings = {".mngr/settings.toml": f'[project]\nsetup = """{FOREIGN_PROGRAMS}"""\n'}
    show = ["/bin/sh", "-c", 'echo "$VIRTUAL_ENV"; command -v python; command -v git']
    with new_world(tmp_path, {"test_a.py": "def test_a(): pass\n", **settings}, sandbox) as world:
        venv = f"{world.room.inner_work_dir}/.venv"
        assert world.room.run(show).out.splitlines() == [venv, f"{venv}/bin/python", f"{venv}/bin/git"]
        assert world.room.run(["python", "-c", "import sys; print(sys.executable)"]).out == f"{venv}/bin/python\n"
        assert not (Path(os.environ["HOME"]) / "foreign").exists()


@pytest.mark.full
def test_clean_rooms_work_on_another_host(world: World, farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNGR__PROVIDERS__SSH__CONFIG", str(farm.config))
    fleet = Fleet(str(world.root / "home"), cwd=str(world.repo))
    remote_pytest = PytestOptions(pytest=[str(BIN_DIR / "python"), "-m", "pytest"])
    sandbox = CleanRoomSandbox(program=remote_pytest.pytest[0])
    remote_options = CleanRoomOptions(on="@h1", sandbox=sandbox, env=BARE)
    remote_rooms = CleanRoomPool(fleet, "there", str(world.repo), remote_options)
    with contextlib.closing(remote_rooms), remote_rooms.acquire(world.base) as room:
        assert room.isolation.endswith("; no network")
        runner = PytestRunner(remote_pytest)
        passed = runner.run_test(room, world.test("test_adds"), RunOptions(resolve=True))
        assert (passed.outcome, passed.imported_from) == ("pass", {"tally": "tally/__init__.py"}), passed
        assert runner.run_test(room, world.test("test_load")).why == "KeyError: 'x'"
        timed_out = PytestRunner(remote_pytest.replace(timeout=3)).run_test(room, world.test("test_hangs"))
        assert timed_out.outcome == "timeout"
        room.write("data.bin", b"\0\xff")
        assert room.read("data.bin") == b"\0\xff"
    assert [agent.name for agent in fleet.list().agents] == [world.room.name]


def test_locations_include_programs_that_a_test_starts_without_importing_them() -> None:
    scripts = {
        "shop": ProgramLocation(path="bin/shop", code="shop/cli.py"),
        "tool": ProgramLocation(path="bin/tool"),
        "none": ProgramLocation(),
    }
    assert map_locations(ResolvedCode(packages={"core": "core/__init__.py"}, scripts=scripts)) == {
        "core": "core/__init__.py",
        "shop": "shop/cli.py",
        "tool": "bin/tool",
    }
    assert map_locations(ResolvedCode()) == {}
