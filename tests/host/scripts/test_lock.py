"""lock.sh: a lock on a host that is held through a pipe and ends with it, by flock or by a link that names its owner."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mngr.base.errors import TimedOut
from mngr.base.lock import Lock
from tests.conftest import wait_for
from tests.host.scripts.conftest import Land, land

BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def hold(some: Land, path: Path, seconds: int = 10) -> subprocess.Popen[str]:
    process = some.start("lock.sh", path, seconds)
    assert answer(process) == "locked"
    return process


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], 20)[0], "no answer"
    return process.stdout.readline().rstrip("\n")


def release(process: subprocess.Popen[str]) -> None:
    out, err = process.communicate(timeout=10)
    assert (process.returncode, out, err) == (0, "", "")


def began(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "a place").mkdir()
    return tmp_path / "a place" / "lock"


def test_one_holds_it_until_its_input_ends(any_land: Land, path: Path) -> None:
    first = hold(any_land, path)
    start = time.monotonic()
    assert any_land.run("lock.sh", path, 1) == "busy\n"
    assert 1 <= time.monotonic() - start < 5
    waiting = any_land.start("lock.sh", path, 10)
    release(first)
    assert answer(waiting) == "locked"
    release(waiting)
    assert [name for name in os.listdir(path.parent) if name != "lock"] == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_holder_that_is_ended_holds_no_more(any_land: Land, path: Path, how: signal.Signals) -> None:
    first = hold(any_land, path)
    first.send_signal(how)
    if how != signal.SIGKILL:
        wait_for(lambda: not (path.parent / "lock.owner").is_symlink(), 5)
    second = hold(any_land, path, 5)  # nobody has asked yet how the first one ended: it is still a zombie
    release(second)


def test_twenty_at_once(any_land: Land, path: Path) -> None:
    inside = path.parent / "inside"

    def one(_: int) -> None:
        process = hold(any_land, path, 60)
        inside.mkdir()  # fails when somebody else is in there
        inside.rmdir()
        release(process)

    with ThreadPoolExecutor(20) as pool:
        assert len(list(pool.map(one, range(20)))) == 20


def test_twenty_find_a_dead_owner(any_land: Land, path: Path) -> None:
    """Each of them sees that the owner is dead; what one takes away must be the dead one's and not its successor's."""
    inside = path.parent / "inside"
    first = hold(any_land, path)
    first.kill()
    waiting = [any_land.start("lock.sh", path, 60) for _ in range(20)]

    def one(process: subprocess.Popen[str]) -> None:
        assert answer(process) == "locked"
        inside.mkdir()
        inside.rmdir()
        release(process)

    with ThreadPoolExecutor(20) as pool:
        assert len(list(pool.map(one, waiting))) == 20


def test_it_is_the_lock_of_python_too(plain: Land, path: Path) -> None:
    first = hold(plain, path)
    with pytest.raises(TimedOut), Lock(str(path), 0.1):
        pass
    release(first)
    with Lock(str(path), 5):
        assert plain.run("lock.sh", path, 1) == "busy\n"


def test_what_cannot_be_locked_is_said_at_once(any_land: Land, path: Path) -> None:
    start = time.monotonic()
    assert any_land.run("lock.sh", path.parent / "no" / "lock", 9).startswith("failed cannot write ")
    assert time.monotonic() - start < 5


def test_a_pipe_in_its_place_is_not_waited_for(any_land: Land, path: Path) -> None:
    os.mkfifo(path)
    release(hold(any_land, path))


@pytest.fixture(
    params=[
        "dash",
        pytest.param("bash", marks=pytest.mark.hosts),
        "busybox",
        "dash without /proc",
        pytest.param("bash without /proc", marks=pytest.mark.hosts),
    ]
)
def linked(request: pytest.FixtureRequest, tmp_path: Path) -> Land:
    """Hosts without flock."""
    name, _, rest = request.param.partition(" ")
    made = land(tmp_path, name, flock=False)
    made.has_proc = not rest
    if rest:  # where sysctl tells instead
        made.replace("sysctl", f"#!/bin/sh\n[ $2 = kern.boottime ] && echo {int(BOOT[:8], 16)}\n")
    return made


def test_links_of_the_dead_are_broken(linked: Land, path: Path) -> None:
    boot = BOOT if linked.has_proc else str(int(BOOT[:8], 16))
    dead = subprocess.Popen(["true"])
    dead.wait()
    mine = os.getpid()
    for owner in (
        f"{dead.pid}:{boot}",
        f"{dead.pid}:{boot}:{began(mine)}",
        f"{mine}:another-boot:{began(mine)}",
        f"{mine}:{boot}:1",  # the number of a dead process went to another
        "nonsense",
        f"../../{mine}:{boot}",
    ):
        (path.parent / "lock.owner").symlink_to(owner)
        assert linked.run("lock.sh", path, 3) == "locked\n", owner
        assert os.listdir(path.parent) == [], owner


def test_links_of_the_living_are_kept(linked: Land, path: Path) -> None:
    boot = BOOT if linked.has_proc else str(int(BOOT[:8], 16))
    mine = os.getpid()
    owners = [f"{mine}:{boot}", f"{mine}:{boot}:"]
    if linked.has_proc:
        owners.append(f"{mine}:{boot}:{began(mine)}")
    for owner in owners:
        link = path.parent / "lock.owner"
        link.symlink_to(owner)
        assert linked.run("lock.sh", path, 0) == "busy\n", owner
        assert os.readlink(link) == owner
        link.unlink()


def test_a_holder_without_flock_is_known_by_its_start(linked: Land, path: Path) -> None:
    holder = linked.start("lock.sh", path, 5)
    assert answer(holder) == "locked"
    pid, _, rest = os.readlink(path.parent / "lock.owner").partition(":")
    assert int(pid) == holder.pid and rest.partition(":")[2]
    assert linked.run("lock.sh", path, 0) == "busy\n"
    holder.kill()
    assert linked.run("lock.sh", path, 3) == "locked\n"
    holder.communicate()


def test_a_breaker_that_died_is_not_waited_for_forever(linked: Land, path: Path) -> None:
    (path.parent / "lock.owner").symlink_to("nonsense")
    breaks = path.parent / "lock.break"
    breaks.mkdir()
    assert linked.run("lock.sh", path, 0) == "busy\n"
    old = time.time() - 150
    os.utime(breaks, (old, old))
    assert linked.run("lock.sh", path, 5) == "locked\n"


def test_a_directory_in_the_place_of_the_link_lets_nobody_in(linked: Land, path: Path) -> None:
    (path.parent / "lock.owner").mkdir()
    assert linked.run("lock.sh", path, 0) == "busy\n"
    assert os.listdir(path.parent / "lock.owner") == []


@pytest.mark.parametrize("name", ["dash", "bash"])
def test_a_sleep_that_knows_whole_seconds_only(tmp_path: Path, path: Path, name: str) -> None:
    some = land(tmp_path, name, flock=False)
    some.replace("sleep", '#!/bin/sh\ncase $1 in *.*) exit 1 ;; esac\nexec {real} "$@"\n')
    first = hold(some, path)
    second = some.start("lock.sh", path, 9)
    wait_for(lambda: subprocess.run(["pgrep", "-P", str(second.pid)], check=False, capture_output=True).stdout)
    release(first)
    assert answer(second) == "locked"
    release(second)
