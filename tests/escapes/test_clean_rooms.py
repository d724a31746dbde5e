"""Attempts of a branch under test: it must not write outside, read the user's files or change the next run."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mngr.tmr.cleanroom.clean_room import CleanRoom
from mngr.tmr.cleanroom.clean_rooms import CleanRoomOptions, CleanRoomPool
from mngr.tmr.cleanroom.sandbox import CleanRoomSandbox
from tests.conftest import run_git
from tests.escapes.attempt import Outside, read_state, some
from tests.escapes.services import Services
from tests.support.landlock import HAS_SCOPES
from tests.tmr.world import World, new_world

PROGRAMS = "import glob, os, shutil, socket, subprocess, sys\no, checkout, port, victim = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])\n"
FILES = {"tests/test_app.py": "def test_app():\n    assert True\n", "tests/conftest.py": ""}


@dataclass(frozen=True)
class RoomAttempt:
    """A Python program that a test of the branch runs. A line of its output that starts with MARK is a mark.

    `o` is the directory of the user's files, `checkout` is the user's repository, `port` is a server of this machine and
    `victim` is a process of the user.
    """

    name: str
    program: str
    is_real: bool = True  # it leaves a mark where there is no sandbox


ATTEMPTS = [
    RoomAttempt("a test writes a file of the user", "open(o + '/marks/ran', 'w')"),
    RoomAttempt("a test deletes the files of the user", "shutil.rmtree(o + '/treasure')"),
    RoomAttempt("a test reads a file of the user", "print(open(o + '/secret').read())"),
    RoomAttempt("a test reads a secret through other processes", "for p in glob.glob('/proc/[0-9]*/root' + o + '/secret'): print(open(p).read())"),
    RoomAttempt("a test reads the variables of the user", "print(os.environ.get('TOKEN'))\nfor p in glob.glob('/proc/[0-9]*/environ'): print(open(p).read())"),
    RoomAttempt("a test finds the checkout of the user", "print('MARK') if os.path.exists(checkout + '/README.md') else None"),
    RoomAttempt("a test changes the settings of its repository", "open('.git/config', 'a').write('x'); print('MARK')"),
    RoomAttempt("a test moves its repository away", "os.rename('.git', '.git2'); print('MARK')"),
    RoomAttempt("a test writes through a link in place of a file", "os.remove('README.md'); os.symlink(o + '/precious', 'README.md'); open('README.md', 'w').write('x')"),
    RoomAttempt("a test writes through a link in place of a directory", "shutil.rmtree('src'); os.symlink(o + '/treasure', 'src'); open('src/coin', 'w')"),
    RoomAttempt("a test leaves through the directory above its root", "[os.chdir('..') for _ in range(30)]\nprint(open(o[1:] + '/secret').read())"),
    RoomAttempt("a test reaches a server among the files of the user", "socket.socket(socket.AF_UNIX).connect(o + '/marks/socket'); print('MARK')"),
    RoomAttempt("a test reaches a server of this machine", "socket.create_connection(('127.0.0.1', port), 5); print('MARK')"),
    RoomAttempt("a test ends a process of the user", "os.kill(victim, 9); print('MARK')"),
    RoomAttempt("a test makes its own namespaces", "for f in ('--user', '--mount', '--net'):\n    if subprocess.run(['unshare', f, 'true']).returncode == 0: print('MARK', f)", False),
    RoomAttempt("a test mounts a file system", "if subprocess.run(['mount', '-t', 'tmpfs', 'none', '/mnt']).returncode == 0: print('MARK')", False),
    RoomAttempt("a test creates a device", "os.mknod('/tmp/disk', 0o60600, os.makedev(254, 0)); print('MARK')", False),
    RoomAttempt("a test changes a program that the user runs", "for d in ('/usr/bin', '/usr/local/bin', '/etc', os.path.dirname(sys.executable)):\n    if os.access(d, os.W_OK): print('MARK', d)", False),
    RoomAttempt("a test finds other agents and mngr's files", "for p in glob.glob(o + '/../home/*') + glob.glob(o + '/../home/agents/*/agent.json'):\n    if os.path.basename(p) not in ('agents', 'work', 'lib', 'cleanrooms'): print('MARK', p)", False),
]  # fmt: skip

# What one command leaves in a clean room, as shell programs. The next command prints MARK if it finds any of it.
LEFTOVERS = {
    "an output": ('mkdir -p "$MNGR_OUTPUT_DIR/d/e"; touch "$MNGR_OUTPUT_DIR/left"; chmod 0 "$MNGR_OUTPUT_DIR/d"', '[ ! -e "$MNGR_OUTPUT_DIR/left" ] && [ ! -e "$MNGR_OUTPUT_DIR/d" ]'),
    "a file in the workspace": ("echo x > left", "[ ! -e left ]"),
    "a changed test": ("echo x >> tests/test_app.py", "! grep -q x tests/test_app.py"),
    "a changed configuration of pytest": ("echo x > pytest.ini; echo x >> tests/conftest.py", "[ ! -e pytest.ini ] && [ ! -s tests/conftest.py ]"),
    "an ignored file": ("mkdir -p build .venv/bin; echo x > build/left; echo x > app.log", "[ ! -e build/left ] && [ ! -e app.log ]"),
    "compiled code": ("mkdir -p src/__pycache__; echo x > src/__pycache__/app.cpython-311.pyc", "[ ! -e src/__pycache__/app.cpython-311.pyc ]"),
    "a file in the home": ("echo x > ~/.bashrc; mkdir -p ~/.local/lib; echo x > ~/.local/lib/left", '[ -z "$(ls -A ~)" ]'),
    "a file in a temporary directory": ("echo x > /tmp/left; echo x > /var/tmp/left; echo x > /dev/shm/left; echo x > /run/left", "[ ! -e /tmp/left ] && [ ! -e /var/tmp/left ] && [ ! -e /dev/shm/left ] && [ ! -e /run/left ]"),
    "a directory that nobody may enter": ("mkdir -p closed/inner; chmod 000 closed", "[ ! -e closed ]"),
    "a link in place of a directory": ("rm -rf src; ln -s /etc src", "[ ! -L src ] && [ -f src/app.py ]"),
    "a nested repository": ("git init -q nested; echo x > nested/x", "[ ! -e nested ]"),
    "a process that goes on": ("(setsid sleep 600.75 &)", "! grep -qs '[6]00[.]75' /proc/[0-9]*/cmdline"),
    "files with odd names": ("touch -- -rf '--help' \"$(printf 'a\\nb')\"", "[ \"$(ls | wc -l)\" -lt 8 ] && [ ! -e ./-rf ]"),
}  # fmt: skip


# The same for files that the set-up created.
SET_UP = "mkdir -p node_modules/lib build/__pycache__ && echo original | tee node_modules/lib/a.js >build/b.txt && ln -s lib/a.js node_modules/link"
SETUP_LEFTOVERS = {
    "a changed file": ("echo left > node_modules/lib/a.js", "! grep -q left node_modules/lib/a.js"),
    "a changed file with its old times": ("cp -p build/b.txt /tmp/b; echo forged.. > build/b.txt; touch -r /tmp/b build/b.txt", "grep -q original build/b.txt"),
    "a file changed through a hard link": ("ln build/b.txt x; echo left > x; rm x", "grep -q original build/b.txt"),
    "a new file": ("mkdir node_modules/new; echo left > node_modules/new/x; echo left > build/c.txt", "[ ! -e node_modules/new ] && [ ! -e build/c.txt ]"),
    "a deleted file": ("rm build/b.txt", "[ -e build/b.txt ]"),
    "another directory": ("mv node_modules old; cp -r old node_modules; echo left > node_modules/lib/a.js", "! grep -q left node_modules/lib/a.js"),
    "another link": ("ln -sfn /etc/passwd node_modules/link", "grep -q original node_modules/link"),
    "a link in place of a directory": ("rm -rf build; ln -s /tmp build", "[ ! -L build ]"),
    "permissions": ("chmod 000 node_modules/lib build/b.txt", "[ \"$(stat -c %a node_modules/lib)\" != 0 ] && [ \"$(stat -c %a build/b.txt)\" != 0 ]"),
    "compiled code": ("mkdir -p build/__pycache__; echo left > build/__pycache__/b.cpython-311.pyc", "[ ! -e build/__pycache__/b.cpython-311.pyc ]"),
}  # fmt: skip


@dataclass(frozen=True)
class Room:
    """A clean room, and the user's files and servers outside."""

    world: World
    outside: Outside
    services: Services

    def get_words(self) -> list[str]:
        variables = self.services.variables
        return [str(self.outside.root), str(self.world.repo), variables["PORT"], variables["VICTIM"]]


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    root = tmp_path_factory.mktemp("room")
    with pytest.MonkeyPatch.context() as patch:
        outside = Outside.create(root / "outside")
        patch.setenv("TOKEN", outside.secret)
        with (
            Services(outside.root, outside.secret, os.getuid()) as services,
            new_world(root, FILES, CleanRoomSandbox()) as world,
        ):
            assert world.room.isolation.startswith("bubblewrap")  # else the attempts would harm this machine
            yield Room(world, outside, services)


def list_marks(room: Room, before: dict[str, str], output: str) -> list[str]:
    """Return what changed outside, what was reached there, and what the output shows of it."""
    after = read_state(room.outside.root)
    marks = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
    marks += [line for line in output.splitlines() if line.startswith("MARK") or room.outside.secret in line]
    return marks + room.services.list_marks()


@pytest.mark.parametrize("attempt", some(ATTEMPTS, one_of=4))
def test_a_test_in_a_clean_room_leaves_no_mark(room: Room, attempt: RoomAttempt) -> None:
    before = read_state(room.outside.root)
    ran = room.world.room.run(["python3", "-c", PROGRAMS + attempt.program, *room.get_words()], timeout=30)
    assert list_marks(room, before, ran.out) == []


def test_a_test_with_the_network_reaches_no_socket_without_a_file(room: Room, tmp_path: Path) -> None:
    program = "import socket, sys; print(socket.socket(socket.AF_UNIX).connect_ex(chr(0) + sys.argv[1]))"
    words = ["python3", "-c", program, room.services.variables["ABSTRACT"]]
    with new_world(tmp_path, FILES, CleanRoomSandbox(network=True)) as world:
        ran = world.room.run(words, timeout=30)
    marks = room.services.list_marks()
    assert (ran.out, marks) == (("1\n", []) if HAS_SCOPES else ("0\n", ["reached abstract"]))


@pytest.mark.parametrize("name", LEFTOVERS)
def test_the_next_command_in_a_clean_room_finds_nothing_of_the_last_one(room: Room, name: str) -> None:
    plant, check = LEFTOVERS[name]
    before = read_state(room.outside.root)
    planted = room.world.room.run(["sh", "-ec", plant], timeout=30)
    assert planted.code == 0, planted.err
    ran = room.world.room.run(["sh", "-c", f"{{ {check}; }} || echo MARK"], timeout=30)
    assert ran.code == 0 and list_marks(room, before, ran.out) == []


@pytest.fixture(scope="module")
def set_up_room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CleanRoom]:
    settings = {".mngr/settings.toml": f'[project]\nsetup = "{SET_UP}"\n', ".gitignore": "node_modules\nbuild\n"}
    with new_world(tmp_path_factory.mktemp("set-up"), {**FILES, **settings}, CleanRoomSandbox()) as world:
        yield world.room


@pytest.mark.parametrize("name", SETUP_LEFTOVERS)
def test_the_next_command_finds_the_files_of_set_up_as_they_were(set_up_room: CleanRoom, name: str) -> None:
    plant, check = SETUP_LEFTOVERS[name]
    planted = set_up_room.run(["sh", "-ec", plant], timeout=30)
    assert planted.code == 0, planted.err
    checked = set_up_room.run(["sh", "-c", check], timeout=30)
    assert checked.code == 0, checked.err


def test_a_branch_that_replaces_a_directory_by_a_link_makes_mngr_clean_nothing_there(tmp_path: Path) -> None:
    """Set-up made files below the directory, and mngr restores these files before each command, outside the sandbox."""
    settings = {".mngr/settings.toml": '[project]\nsetup = "mkdir -p web/made && touch web/made/x"\n'}
    made = tmp_path / "outside/made"
    (made / "__pycache__").mkdir(parents=True)
    (made / "__pycache__/coin").write_text("gold")
    with new_world(
        tmp_path, {**FILES, **settings, "web/page": "", ".gitignore": "made\n"}, CleanRoomSandbox()
    ) as world:
        (world.repo / "web/page").unlink()
        (world.repo / "web").rmdir()
        (world.repo / "web").symlink_to(tmp_path / "outside")
        commit = world.write({"new": ""})
        options = CleanRoomOptions(sandbox=CleanRoomSandbox(), trusted_commit=world.base)
        pool = CleanRoomPool(world.fleet, "link", str(world.repo), options, at_once=1)
        with contextlib.closing(pool), pool.acquire(commit) as room:
            room.run(["true"])
            (made / "new").write_text("silver")
            room.run(["true"])
        assert sorted(read_state(made)) == ["__pycache__", "__pycache__/coin", "new"]


def test_the_next_command_finds_the_files_of_a_submodule_as_they_were(tmp_path: Path) -> None:
    fetch = "[ ! -e .gitmodules ] || git -c protocol.file.allow=always submodule --quiet update --init"
    settings = {".mngr/settings.toml": f'[project]\nsetup = "{fetch}"\n'}
    with new_world(tmp_path, {**FILES, **settings}, CleanRoomSandbox()) as world:
        (world.repo / "sub").mkdir()
        run_git(world.repo, "update-index", "--add", "--cacheinfo", f"160000,{world.base},sub")
        commit = world.write({".gitmodules": '[submodule "sub"]\n\tpath = sub\n\turl = ./\n'})
        options = CleanRoomOptions(sandbox=CleanRoomSandbox())
        pool = CleanRoomPool(world.fleet, "sub", str(world.repo), options, at_once=1)
        with contextlib.closing(pool), pool.acquire(commit) as room:
            evil = "git init -q x; git -C x config core.fsmonitor 'touch /tmp/ran'; rm sub/.git; mv x/.git sub/.git"
            for plant in ("echo left >sub/tests/test_app.py", "echo left >sub/new", evil):
                assert room.run(["sh", "-ec", plant]).code == 0
                checked = room.run(
                    ["sh", "-c", "[ -f sub/.git ] && [ ! -e sub/new ] && ! grep left sub/tests/test_app.py"]
                )
                assert checked.code == 0, (plant, checked)


@pytest.mark.parametrize("has_trusted_base", [True, False])
def test_the_users_own_git_filters_run_on_no_file_of_a_branch(tmp_path: Path, has_trusted_base: bool) -> None:
    """A filter such as git-lfs is a program of the user, but the branch chooses what it reads."""
    attributes = {".gitattributes": "* filter=own\n", "app.bin": "branch\n"}
    with new_world(tmp_path, FILES, CleanRoomSandbox()) as world:
        config, mark = Path(os.environ["HOME"]) / ".gitconfig", tmp_path / "mark"
        commit = world.write(attributes)
        with config.open("a") as file:
            file.write(f'[filter "own"]\n\tsmudge = touch {mark}; cat\n\tclean = touch {mark}; cat\n')
        options = CleanRoomOptions(sandbox=CleanRoomSandbox(), trusted_commit=world.base if has_trusted_base else None)
        pool = CleanRoomPool(world.fleet, "filters", str(world.repo), options, at_once=1)
        with contextlib.closing(pool), pool.acquire(commit) as room:
            for _ in range(2):
                assert room.run(["sh", "-c", "cat app.bin; echo more >>app.bin"]).out == "branch\n"
        assert not mark.exists()
        (world.repo / "app.bin").unlink()
        subprocess.run(["git", "checkout", "-q", "--", "."], cwd=world.repo, check=True)
        assert mark.exists()  # The filter works in the user's own checkout.


@pytest.mark.parametrize("attempt", some([attempt for attempt in ATTEMPTS if attempt.is_real], one_of=4))
def test_the_same_program_leaves_a_mark_where_there_is_no_sandbox(
    attempt: RoomAttempt, tmp_path: Path, repo: Path
) -> None:
    """Without this check, an attempt could fail only because it is wrong."""
    outside = Outside.create(tmp_path / "outside")
    before = read_state(outside.root)
    with Services(outside.root, outside.secret, os.getuid()) as services:
        before = read_state(outside.root)
        words = [str(outside.root), str(repo), services.variables["PORT"], services.variables["VICTIM"]]
        env = {**os.environ, "TOKEN": outside.secret}
        argv = [sys.executable, "-c", PROGRAMS + attempt.program, *words]
        ran = subprocess.run(argv, cwd=repo, env=env, capture_output=True, text=True, check=False)
        after = read_state(outside.root)
        marks = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
        marks += [line for line in ran.stdout.splitlines() if line.startswith("MARK") or outside.secret in line]
        assert marks + services.list_marks() != []
