"""hold_lock.sh holds a lock on a host until its pipe closes, by flock or by a link that names the owner."""

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


def start_holder(host_land: Land, path: Path, seconds: int = 10) -> subprocess.Popen[str]:
    process = host_land.start("hold_lock.sh", path, seconds)
    assert read_answer(process) == "locked"
    return process


def read_answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], 20)[0], "no answer"
    return process.stdout.readline().rstrip("\n")


def release(process: subprocess.Popen[str]) -> None:
    out, err = process.communicate(timeout=10)
    assert (process.returncode, out, err) == (0, "", "")


def get_start_time(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "a place").mkdir()
    return tmp_path / "a place" / "lock"


def test_the_lock_is_held_until_the_input_ends(any_land: Land, path: Path) -> None:
    first = start_holder(any_land, path)
    start = time.monotonic()
    assert any_land.run("hold_lock.sh", path, 1) == "busy\n"
    assert 1 <= time.monotonic() - start < 5
    waiting = any_land.start("hold_lock.sh", path, 10)
    release(first)
    assert read_answer(waiting) == "locked"
    release(waiting)
    assert [name for name in os.listdir(path.parent) if name != "lock"] == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_killed_holder_releases_the_lock(any_land: Land, path: Path, how: signal.Signals) -> None:
    first = start_holder(any_land, path)
    first.send_signal(how)
    if how != signal.SIGKILL:
        wait_for(lambda: not (path.parent / "lock.owner").is_symlink(), 5)
    second = start_holder(any_land, path, 5)  # the first one is still a zombie
    release(second)


def test_twenty_processes_take_the_lock_one_after_the_other(any_land: Land, path: Path) -> None:
    exclusive_dir = path.parent / "inside"

    def take_and_release(_: int) -> None:
        process = start_holder(any_land, path, 60)
        exclusive_dir.mkdir()  # fails when another process holds the lock
        exclusive_dir.rmdir()
        release(process)

    with ThreadPoolExecutor(20) as pool:
        assert len(list(pool.map(take_and_release, range(20)))) == 20


def test_twenty_processes_break_the_lock_of_a_dead_owner_only_once(any_land: Land, path: Path) -> None:
    """All of them see that the owner is dead. None may remove the link of the next owner."""
    exclusive_dir = path.parent / "inside"
    first = start_holder(any_land, path)
    first.kill()
    waiting = [any_land.start("hold_lock.sh", path, 60) for _ in range(20)]

    def take_and_release(process: subprocess.Popen[str]) -> None:
        assert read_answer(process) == "locked"
        exclusive_dir.mkdir()
        exclusive_dir.rmdir()
        release(process)

    with ThreadPoolExecutor(20) as pool:
        assert len(list(pool.map(take_and_release, waiting))) == 20


def test_the_shell_lock_and_the_python_lock_exclude_each_other(plain: Land, path: Path) -> None:
    first = start_holder(plain, path)
    with pytest.raises(TimedOut), Lock(str(path), 0.1):
        pass
    release(first)
    with Lock(str(path), 5):
        assert plain.run("hold_lock.sh", path, 1) == "busy\n"


def test_a_path_that_cannot_be_locked_fails_at_once(any_land: Land, path: Path) -> None:
    start = time.monotonic()
    assert any_land.run("hold_lock.sh", path.parent / "no" / "lock", 9).startswith("failed cannot write ")
    assert time.monotonic() - start < 5


def test_a_pipe_instead_of_the_lock_file_does_not_block(any_land: Land, path: Path) -> None:
    os.mkfifo(path)
    release(start_holder(any_land, path))


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
    host_land = land(tmp_path, name, flock=False)
    host_land.has_proc = not rest
    if rest:  # sysctl gives the boot time instead
        host_land.replace("sysctl", f"#!/bin/sh\n[ $2 = kern.boottime ] && echo {int(BOOT[:8], 16)}\n")
    return host_land


def test_owner_links_of_dead_processes_are_removed(linked: Land, path: Path) -> None:
    boot = BOOT if linked.has_proc else str(int(BOOT[:8], 16))
    dead = subprocess.Popen(["true"])
    dead.wait()
    mine = os.getpid()
    for owner in (
        f"{dead.pid}:{boot}",
        f"{dead.pid}:{boot}:{get_start_time(mine)}",
        f"{mine}:another-boot:{get_start_time(mine)}",
        f"{mine}:{boot}:1",  # another process has the pid of the dead owner
        "nonsense",
        f"../../{mine}:{boot}",
    ):
        (path.parent / "lock.owner").symlink_to(owner)
        assert linked.run("hold_lock.sh", path, 3) == "locked\n", owner
        assert os.listdir(path.parent) == [], owner


def test_owner_links_of_running_processes_are_kept(linked: Land, path: Path) -> None:
    boot = BOOT if linked.has_proc else str(int(BOOT[:8], 16))
    mine = os.getpid()
    owners = [f"{mine}:{boot}", f"{mine}:{boot}:"]
    if linked.has_proc:
        owners.append(f"{mine}:{boot}:{get_start_time(mine)}")
    for owner in owners:
        link = path.parent / "lock.owner"
        link.symlink_to(owner)
        assert linked.run("hold_lock.sh", path, 0) == "busy\n", owner
        assert os.readlink(link) == owner
        link.unlink()


def test_without_flock_the_owner_link_contains_pid_and_start_time(linked: Land, path: Path) -> None:
    holder = linked.start("hold_lock.sh", path, 5)
    assert read_answer(holder) == "locked"
    pid, _, rest = os.readlink(path.parent / "lock.owner").partition(":")
    assert int(pid) == holder.pid and rest.partition(":")[2]
    assert linked.run("hold_lock.sh", path, 0) == "busy\n"
    holder.kill()
    assert linked.run("hold_lock.sh", path, 3) == "locked\n"
    holder.communicate()


def test_a_stale_break_directory_does_not_block_forever(linked: Land, path: Path) -> None:
    (path.parent / "lock.owner").symlink_to("nonsense")
    breaks = path.parent / "lock.break"
    breaks.mkdir()
    assert linked.run("hold_lock.sh", path, 0) == "busy\n"
    old = time.time() - 150
    os.utime(breaks, (old, old))
    assert linked.run("hold_lock.sh", path, 5) == "locked\n"


def test_a_directory_instead_of_the_owner_link_keeps_the_lock_busy(linked: Land, path: Path) -> None:
    (path.parent / "lock.owner").mkdir()
    assert linked.run("hold_lock.sh", path, 0) == "busy\n"
    assert os.listdir(path.parent / "lock.owner") == []


@pytest.mark.parametrize("name", ["dash", "bash"])
def test_locking_works_with_a_sleep_without_fractions(tmp_path: Path, path: Path, name: str) -> None:
    host_land = land(tmp_path, name, flock=False)
    host_land.replace("sleep", '#!/bin/sh\ncase $1 in *.*) exit 1 ;; esac\nexec {real} "$@"\n')
    first = start_holder(host_land, path)
    second = host_land.start("hold_lock.sh", path, 9)
    wait_for(lambda: subprocess.run(["pgrep", "-P", str(second.pid)], check=False, capture_output=True).stdout)
    release(first)
    assert read_answer(second) == "locked"
    release(second)
