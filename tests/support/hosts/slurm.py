"""A private Slurm: munged, slurmctld and three nodes with their own processes, /tmp and name, and one shared disk."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tests.support.hosts.place import PATH, Place, children, end, kill, program, start, undone, wait_until
from tests.support.hosts.sshd import GITCONFIG
from tests.support.paths import ROOT

NODES = ("n1", "n2", "n3")
# This repository must stay visible when it is below /tmp, because it is first on the PATH that jobs inherit.
# The shell stays as the first process of the node, and reaps processes that have lost their parents.
BOOT = """\
set -e
root=$1 kept=$2
shift 2
cd /
hostname "$name"
mount --bind "$root" "$kept"
mount -t tmpfs -o mode=1777 tmpfs /tmp
mkdir -p "$root"
mount --bind "$kept" "$root"
"$@" & wait $!
"""
NEW = ["--fork", "--kill-child", "--pid", "--mount", "--uts", "--ipc", "--mount-proc"]
CONF = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={dir}/munge/socket,cred_expire=5
CryptoType=crypto/munge
SlurmctldPort={port}
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd.%n.pid
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool/%n
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=16
ReturnToService=2
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0,requeue_setup_env_fail
JobAcctGatherType=jobacct_gather/none
JobRequeue=1
KillWait=5
OverTimeLimit=0
SlurmdTimeout=5
SlurmdParameters=config_overrides
NodeName=n[1-3] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=16 RealMemory=2000 State=UNKNOWN
PartitionName=main Nodes=n[1-3] Default=YES MaxTime=INFINITE State=UP
PartitionName=tiny Nodes=n3 MaxTime=INFINITE State=DOWN
"""


class Slurm:
    """A Slurm cluster that clients find through SLURM_CONF. `shared` is the disk that all nodes share."""

    def __init__(self) -> None:
        self._place = Place("slurm")
        self.dir = self._place.dir
        self.shared = self.dir / "shared"
        self.home = self.shared / "home"  # the home of the users
        self.env: Mapping[str, str] = {"SLURM_CONF": str(self.dir / "slurm.conf")}
        self._servers: dict[str, subprocess.Popen[bytes]] = {}
        with undone(self.stop):
            self._start()

    def __enter__(self) -> Slurm:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def run(self, *words: str, check: bool = True) -> str:
        """Run one of Slurm's programs and return its output."""
        completed = subprocess.run(
            [program(words[0]), *words[1:]],
            env={"PATH": PATH, **self.env},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if check and completed.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: {completed.stderr}")
        return completed.stdout.strip()

    def jobs(self) -> dict[str, str]:
        """Return the name of every job that is not over, with its state in two letters."""
        return dict(line.split(" ") for line in self.run("squeue", "-h", "-o", "%j %t").splitlines())

    def start_node(self, name: str) -> None:
        """Boot a node, and do not wait."""
        log = self.dir / f"{name}.log"
        conf = str(self.dir / "slurm.conf")
        boot_command = ["env", f"name={name}", "sh", "-c", BOOT, name, str(ROOT), str(self.dir / "root")]
        argv = ["unshare", *NEW, *boot_command, program("slurmd"), "-D", "-N", name, "-f", conf]
        self._servers[name] = start(argv, log, farewell="KILL")

    def crash_node(self, name: str) -> None:
        """Cut the power of a node: all its processes end at once."""
        server = self._servers.pop(name, None)
        if server is not None:
            for pid in children(server.pid):
                kill(pid)
            end(server)

    def wait_for_nodes(self) -> None:
        """Wait until all nodes accept jobs."""
        deadline = time.monotonic() + 30
        while self.run("sinfo", "-h", "-p", "main", "-t", "idle,alloc,mix", "-o", "%D", check=False) != "3":
            if time.monotonic() > deadline:
                raise RuntimeError(f"the nodes do not come up: {self.run('sinfo', '-N', '-l', check=False)}")
            time.sleep(0.05)

    def reset(self) -> None:
        """Remove all jobs and files, and bring all nodes up."""
        self.run("scancel", "--user=root", "--signal=KILL", "--full", check=False)
        self.run("scancel", "--user=root", check=False)
        for name in NODES:
            if name not in self._servers:
                self.start_node(name)
        deadline = time.monotonic() + 30
        while self.jobs() and time.monotonic() < deadline:
            time.sleep(0.05)
        shutil.rmtree(self.shared / "hosts", ignore_errors=True)
        self.wait_for_nodes()

    def stop(self) -> None:
        """Remove the cluster."""
        for name in NODES:
            self.crash_node(name)
        for name in ("slurmctld", "munged"):
            if name in self._servers:
                end(self._servers.pop(name))
        self._place.close()

    def _start(self) -> None:
        for name in ("munge", "state", "spool", "root", "shared", "shared/home"):
            (self.dir / name).mkdir()
        (self.home / ".gitconfig").write_text(GITCONFIG)
        (self.dir / "munge/key").write_bytes(os.urandom(1024))
        (self.dir / "munge/key").chmod(0o400)
        port = 20000 + self._place.number * 10
        host = os.uname().nodename.partition(".")[0]
        values = {"dir": self.dir, "host": host, "port": port, "first": port + 1, "last": port + 3}
        (self.dir / "slurm.conf").write_text(CONF.format(**values))
        munge = [f"--{key}={self.dir}/munge/{name}" for key, name in MUNGE.items()]
        log = self.dir / "munged.log"
        self._servers["munged"] = start(["munged", "--foreground", "--force", *munge], log, farewell="KILL")
        wait_until((self.dir / "munge/socket").exists, self._servers["munged"], log)
        log = self.dir / "ctld.log"
        argv = ["slurmctld", "-D", "-f", str(self.dir / "slurm.conf")]
        self._servers["slurmctld"] = start(argv, log, farewell="KILL")
        for name in NODES:
            self.start_node(name)
        self.wait_for_nodes()


MUNGE = {
    "key-file": "key",
    "socket": "socket",
    "pid-file": "pid",
    "log-file": "log",
    "seed-file": "seed",
}


class Line:
    """A connection to Slurm's programs: `program LINE` passes the line to a shell there, until it is cut."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._cut, self._calls = directory / "cut", directory / "calls"
        self._calls.mkdir()
        self.program = directory / "line"
        self.program.write_text(
            f'#!/bin/sh\n[ ! -e {self._cut} ] || {{ echo "no route" >&2; exit 255; }}\n'
            f'read -r stat </proc/$$/stat; echo "$stat" >{self._calls}/$$\n'
            f'[ ! -e {self._cut} ] || exit 255\nexec sh -c "$1"\n'
        )
        self.program.chmod(0o755)

    def cut(self) -> None:
        """End every call, and refuse new ones."""
        self._cut.touch()
        for call in self._calls.iterdir():
            pids = [int(call.name)] if _born(call) == _born(Path(f"/proc/{call.name}/stat")) else []
            for pid in pids:
                pids += children(pid)
            for pid in pids:
                kill(pid)
            call.unlink()

    def mend(self) -> None:
        """Accept calls again."""
        self._cut.unlink(missing_ok=True)


def _born(stat: Path) -> str:
    """Return the start time of a process from its `stat`, because another process may reuse its pid."""
    try:
        return [*stat.read_text().rpartition(")")[2].split(), *[""] * 20][19]
    except OSError:
        return "gone"
