"""Used by the clean room program: ends a command that uses more of the machine than it may.

Standard library only, Python 3.9 or newer. Kernel limits are set where the command starts. This module watches what the
kernel counts only per user, does not count at all, or does not limit for root.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Family = dict[int, list[bytes]]  # by process id: the fields of /proc/PID/stat from the state on


_COLLECT_TIMEOUT = 600.0  # seconds until the first row of a report
_FULL_CHECK_INTERVAL = 20  # the command itself is measured once in this number of checks


class ResourceMonitor:
    """Checks a command against its limits: first cheaply on the whole machine, then on the command itself."""

    def __init__(self, most: dict[str, int], places: list[str], family: Callable[[int], Family]) -> None:
        self._places, self._family = places, family
        self._began = time.time() - 0.01  # file timestamps can lag behind the clock
        self._check_count = 0
        self._threads, self._forks, memory, free = self._measure_machine()
        self._limits = {
            **most,
            "memory": min(most["memory"], memory * 4 // 5),
            "disk": min(most["disk"], free * 4 // 5),
        }
        self._memory, self._free = memory, free

    def _measure_machine(self) -> tuple[int, int, int, int]:
        """Return the thread count, the last process id, and the available bytes of memory and of disk."""
        with open("/proc/loadavg", "rb") as file:
            row = file.read().split()
        with open("/proc/meminfo", "rb") as file:
            memory = int(file.read().partition(b"MemAvailable:")[2].split(None, 1)[0]) << 10
        disk = os.statvfs(self._places[0])
        return int(row[3].partition(b"/")[2]), int(row[4]), memory, disk.f_bavail * disk.f_frsize

    def find_broken_limit(self) -> str:
        """Return the rule that is broken now and a sentence about it, or an empty string."""
        previous_forks, limits = self._forks, self._limits
        threads, self._forks, memory, free = self._measure_machine()
        self._check_count += 1
        is_full_check = (
            self._check_count % _FULL_CHECK_INTERVAL == 0
        )  # other programs may have freed as much as the command took
        # If other programs caused the increase, the next check starts from the new value.
        has_many_threads = threads - self._threads > limits["processes"] // 2
        if has_many_threads or not 0 <= self._forks - previous_forks < limits["processes"] // 4 or is_full_check:
            self._threads = threads
            broken_limit = self.check_process_count(sum(int(row[17]) for row in self._family(os.getpid()).values()))
            if broken_limit:
                return broken_limit
        if self._memory - memory > limits["memory"] // 2 or is_full_check:
            self._memory = memory
            rows = self._family(os.getpid())
            if _sum_resident_memory(rows) > limits["memory"] and sum(map(_read_memory_share, rows)) > limits["memory"]:
                return f"clean-room-memory it used more than {limits['memory'] // 1_000_000} MB of memory, so mngr stopped it"
        if self._free - free > limits["disk"] // 2:
            self._free = free
            if self._count_written_bytes() > limits["disk"]:
                return (
                    f"clean-room-disk it wrote more than {limits['disk'] // 1_000_000} MB to disk, so mngr stopped it"
                )
        return ""

    def check_process_count(self, count: int) -> str:
        """Return the same when `count` exceeds the process limit."""
        limit = self._limits["processes"]
        return (
            f"clean-room-fork it had more than {limit} processes at the same time, so mngr stopped it"
            if count > limit
            else ""
        )

    def _count_written_bytes(self) -> int:
        """Return the bytes of files written since the start: in the clean room, and held open by processes."""
        sizes: dict[tuple[int, int], int] = {}
        paths = [
            os.path.join(top, name)
            for directory in self._places
            for top, _, names in os.walk(directory)
            for name in names
        ]
        fd_dirs = [f"/proc/{pid}/fd" for pid in self._family(os.getpid())]
        for path in (*paths, *(entry for directory in fd_dirs for entry in list_dir(directory))):
            try:
                status = os.stat(path, follow_symlinks=path.startswith("/proc/"))
            except OSError:
                continue
            if status.st_ctime >= self._began and status.st_mode & 0o170000 == 0o100000:
                sizes[status.st_dev, status.st_ino] = status.st_blocks * 512
        return sum(sizes.values())


def _sum_resident_memory(rows: Family) -> int:
    """Return the bytes of resident memory of all processes; shared memory counts for each process."""
    return sum(int(row[21]) for row in rows.values()) * os.sysconf("SC_PAGE_SIZE")


def _read_memory_share(pid: int) -> int:
    """Return the bytes of memory that a process uses, with its proportion of shared memory."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            return int(file.read().partition(b"\nPss:")[2].split(None, 1)[0]) << 10
    except (OSError, IndexError):  # the process is ending
        return 0


def list_dir(place: str) -> list[str]:
    """Return the paths in a directory, or an empty list when it cannot be read."""
    try:
        return [f"{place}/{name}" for name in os.listdir(place)]
    except OSError:
        return []


def find_stall(report: str, stall: float, end: float | None) -> float:
    """Return when a process without a new row in its report must be interrupted. Collecting tests takes its time."""
    status = os.stat(report)
    patience = stall if status.st_size else max(stall, _COLLECT_TIMEOUT)
    stalled_at = time.monotonic() + patience - (time.time() - status.st_mtime)
    return stalled_at if end is None else min(end, stalled_at)
