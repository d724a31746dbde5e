"""Beside the warden of a room: sees to it that a command does not use more of the machine than it may.

Standard library only, Python 3.9 or newer. Limits that the kernel keeps are set where the command begins; what it counts
for a whole user or not at all, and root is free of, is watched here.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Family = dict[int, list[bytes]]  # processes, and of each what /proc/PID/stat says from its state on


_FULL_CHECK_INTERVAL = 20  # looks, of which the last is at the command itself


class ResourceMonitor:
    """What a command may use at most, looked at as often as it is cheap: first at the whole machine, only then at the command."""

    def __init__(self, most: dict[str, int], places: list[str], family: Callable[[int], Family]) -> None:
        self._places, self._family = places, family
        self._began = time.time() - 0.01  # the clock of files is behind by as much
        self._check_count = 0
        self._threads, self._forks, memory, free = self._measure_machine()
        self._limits = {
            **most,
            "memory": min(most["memory"], memory * 4 // 5),
            "disk": min(most["disk"], free * 4 // 5),
        }
        self._memory, self._free = memory, free

    def _measure_machine(self) -> tuple[int, int, int, int]:
        """Threads, the last process's number, bytes of memory and of disk to be had."""
        with open("/proc/loadavg", "rb") as file:
            row = file.read().split()
        with open("/proc/meminfo", "rb") as file:
            memory = int(file.read().partition(b"MemAvailable:")[2].split(None, 1)[0]) << 10
        disk = os.statvfs(self._places[0])
        return int(row[3].partition(b"/")[2]), int(row[4]), memory, disk.f_bavail * disk.f_frsize

    def find_broken_limit(self) -> str:
        """The rule that is broken now and a sentence; empty if none is."""
        before, most = self._forks, self._limits
        threads, self._forks, memory, free = self._measure_machine()
        self._check_count += 1
        all_of_it = self._check_count % _FULL_CHECK_INTERVAL == 0  # others may have left as much as it took
        # Where it was others, that is where the next look starts from.
        many = threads - self._threads > most["processes"] // 2
        if many or not 0 <= self._forks - before < most["processes"] // 4 or all_of_it:
            self._threads = threads
            ended = self.check_process_count(sum(int(row[17]) for row in self._family(os.getpid()).values()))
            if ended:
                return ended
        if self._memory - memory > most["memory"] // 2 or all_of_it:
            self._memory = memory
            rows = self._family(os.getpid())
            if _sum_resident_memory(rows) > most["memory"] and sum(map(_read_memory_share, rows)) > most["memory"]:
                return f"room-memory it used more than {most['memory'] >> 20} MB of memory, and was ended"
        if self._free - free > most["disk"] // 2:
            self._free = free
            if self._count_written_bytes() > most["disk"]:
                return f"room-disk it wrote more than {most['disk'] >> 20} MB, and was ended"
        return ""

    def check_process_count(self, count: int) -> str:
        """The same of so many processes."""
        most = self._limits["processes"]
        return f"room-fork it had more than {most} processes at once, and was ended" if count > most else ""

    def _count_written_bytes(self) -> int:
        """Bytes of what was written since the beginning: in files of the room, and in files that only open processes have."""
        found: dict[tuple[int, int], int] = {}
        paths = [
            os.path.join(top, name) for place in self._places for top, _, names in os.walk(place) for name in names
        ]
        held = [f"/proc/{pid}/fd" for pid in self._family(os.getpid())]
        for path in (*paths, *(entry for place in held for entry in list_dir(place))):
            try:
                at = os.stat(path, follow_symlinks=path.startswith("/proc/"))
            except OSError:
                continue
            if at.st_ctime >= self._began and at.st_mode & 0o170000 == 0o100000:
                found[at.st_dev, at.st_ino] = at.st_blocks * 512
        return sum(found.values())


def _sum_resident_memory(rows: Family) -> int:
    """Bytes of memory that processes see; what they have in common counts for each."""
    return sum(int(row[21]) for row in rows.values()) * os.sysconf("SC_PAGE_SIZE")


def _read_memory_share(pid: int) -> int:
    """Bytes of memory that a process takes, and its share of what it has in common with others."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            return int(file.read().partition(b"\nPss:")[2].split(None, 1)[0]) << 10
    except (OSError, IndexError):  # it is ending
        return 0


def list_dir(place: str) -> list[str]:
    try:
        return [f"{place}/{name}" for name in os.listdir(place)]
    except OSError:
        return []
