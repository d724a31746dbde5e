"""Slurm jobs as hosts. `sbatch` creates a job and `srun` runs commands in it.

The files of a host are on the cluster's shared disk.
"""

from __future__ import annotations

import os
import time

from mngr.base import shell, time_format
from mngr.base.config import as_list
from mngr.base.errors import EngineBusy, HostGone, MngrError
from mngr.host import host_store, scripts
from mngr.providers.shared.engine_protocol import EngineDefaults, FoundMachine, Machine
from mngr.providers.shared.host_options import make_option_error
from mngr.providers.shared.on_demand import OnDemandProvider
from mngr.providers.slurm.job_arrays import JobBatcher
from mngr.providers.slurm.slurm_programs import ARRAY_JOB_NAME, SlurmPrograms, build_comment, parse_error
from mngr.providers.slurm.srun_transport import SlurmTransport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.base.paths import Home
    from mngr.providers.shared.engine_protocol import Engine
    from mngr.providers.shared.on_demand import Note
    from mngr.providers.slurm.slurm_programs import SlurmJob

DEFAULT_DIR = "~/.mngr-hosts"
DEFAULT_WAIT = "10m"  # the time limit for a pending job
END_TIMEOUT = 30.0  # seconds; a cancelled job may take this long to end
GRACE_SECONDS = "5"  # for agents when the job ends; Slurm allows 30 in total
_SBATCH_OPTIONS = ("partition", "account", "qos", "time", "gres", "constraint")  # the same names as in sbatch
_LIVE_STATES = ("PD", "CF", "R", "RQ", "S")
_WAIT_READY_SCRIPT = 'case $1 in "~"/*) set -- "$HOME/${1#??}" ;; esac; until [ -e "$1/keeper" ]; do sleep 0.05; done'
_REMOVE_SCRIPT = """
case $1 in "~"/*) place=$HOME/${1#??} ;; *) place=$1 ;; esac
rm -rf -- "$place" 2>/dev/null || { chmod -R u+rwX -- "$place"; rm -rf -- "$place"; } || exit
rmdir "${place%/*}" "${place%/*/*}" 2>/dev/null || :
"""
_FIND_SCRIPT = 'case $1 in "~"/*) cd "$HOME/${1#??}" ;; *) cd "$1" ;; esac 2>/dev/null && pwd -P && ls -1'
_NO, _YES = ("false", "no", "off", "0"), ("true", "yes", "on", "1")


class SlurmMachine(Machine):
    """A job with a directory for the host's files."""

    home: str  # the directory of the files
    shared: bool  # the directory is on the cluster's shared disk
    args: list[str] = []  # arguments of sbatch
    job: str = ""
    number: str = ""  # of the job, for srun


class SlurmEngine(EngineDefaults[SlurmMachine]):
    """Creates one job, or an element of a job array, for each host.

    A job's comment holds its owner's key, the host's name and tag, and the directory of its files.
    """

    options: tuple[str, ...] = (*_SBATCH_OPTIONS, "cpus", "memory", "home", "shared", "args")
    settings: tuple[str, ...] = ("through", "wait")
    can_stop = True
    can_snapshot = False

    def __init__(self, name: str, home: Home, options: dict[str, object], note: Note) -> None:
        self._provider = name
        self._key = host_store.compute_owner_key(home)
        self._note = note
        self._calls = SlurmPrograms([str(word) for word in as_list(options.get("through")) if word])
        self._gathering = JobBatcher()
        self._root = str(options.get("home") or DEFAULT_DIR)
        self.wait = time_format.parse_duration(str(options.get("wait") or DEFAULT_WAIT))

    def read_machine(self, row: dict[str, object]) -> SlurmMachine:
        return SlurmMachine.read(row)

    def plan_machine(self, name: str, options: dict[str, object]) -> SlurmMachine:
        tag = os.urandom(6).hex()
        root = str(options.get("home") or DEFAULT_DIR).rstrip("/")
        if not root.startswith(("/", "~/")):
            expected = "a directory of the cluster that starts with / or ~/"
            raise make_option_error(self._provider, "home", root, expected, DEFAULT_DIR)
        shared = str(options.get("shared", True)).lower()
        if shared not in (*_NO, *_YES):
            raise make_option_error(self._provider, "shared", shared, "true or false", "true")
        is_shared = shared in _YES
        host_dir = f"{root}/{self._key}/{name}-{tag}"
        arguments = [f"--{key}={options[key]}" for key in _SBATCH_OPTIONS if options.get(key)]
        arguments += [f"--cpus-per-task={options['cpus']}"] if options.get("cpus") else []
        arguments += [f"--mem={options['memory']}"] if options.get("memory") else []
        arguments += [str(word) for word in as_list(options.get("args")) if word]
        return SlurmMachine(tag=tag, home=host_dir, shared=is_shared, args=arguments, whose=self._key)

    def create(self, name: str, machine: SlurmMachine) -> SlurmMachine:
        job = self._submit_job(machine)
        running = self._wait_for_job(name, machine, job)
        program = shell.join(["sh", "-c", _WAIT_READY_SCRIPT, "sh", machine.home])
        result = shell.run(self.open_transport(name, running).build_argv(program), timeout=60.0)
        if result.code:
            reason = parse_error(result)
            raise MngrError(
                f"the job {job} does not answer: {reason}", f"see the state of the job: scontrol show job {job}"
            )
        return running

    def find_existing(self, name: str) -> SlurmMachine | None:
        for job in self._calls.list_jobs(f"--name={name},{ARRAY_JOB_NAME}"):
            if job.name == name and job.state in _LIVE_STATES:
                machine = SlurmMachine(tag=job.tag, home=job.host_dir, shared=job.is_shared, whose=job.home_key)
                return self._wait_for_job(name, machine, job.id)
        return None

    def open_transport(self, name: str, machine: SlurmMachine) -> SlurmTransport:
        return SlurmTransport(self._calls, self._provider, name, machine.job, machine.number, is_shared=machine.shared)

    def start_or_reuse_machine(self, name: str, machine: SlurmMachine) -> SlurmMachine:
        live_jobs = [job for job in self._list_jobs(name, machine) if job.state in _LIVE_STATES]
        if live_jobs:
            return self._wait_for_job(name, machine, live_jobs[0].id)
        if not machine.shared:
            raise HostGone(self._provider, name, "its job has ended, and its files were only on the node")
        return self.create(name, machine)

    def stop(self, name: str, machine: SlurmMachine) -> SlurmMachine:
        self.check_stoppable(name, machine)
        self._cancel_jobs(name, machine)
        return machine

    def check_stoppable(self, name: str, machine: SlurmMachine) -> None:
        if not machine.shared:
            raise MngrError(
                f"{name} cannot be stopped, because its files are only on the disk of its node",
                "stop its agents instead, or create hosts with -b shared=true",
            )

    def remove(self, name: str, machine: SlurmMachine) -> None:
        self._cancel_jobs(name, machine)
        host_dir = machine.home
        if machine.shared and host_dir.endswith(f"-{machine.tag}"):
            result = self._calls.run_shell_script(_REMOVE_SCRIPT, host_dir)
            if result.code:
                raise MngrError(
                    f"mngr could not remove {host_dir}: {result.error_line}", f"remove it by hand: rm -r {host_dir}"
                )

    def list_machines(self) -> list[FoundMachine]:
        machines = [
            FoundMachine(resource_kind="job", name=job.name, tag=job.tag, removal_command=f"scancel {job.id}")
            for job in self._calls.list_jobs()
            if job.home_key == self._key
        ]
        result = self._calls.run_shell_script(_FIND_SCRIPT, f"{self._root.rstrip('/')}/{self._key}")
        parent_dir, *names = result.text.splitlines() if result.code == 0 else [""]
        for name in names:
            path = os.path.join(parent_dir, name)
            removal = shell.join(["rm", "-r", path])
            machines.append(
                FoundMachine(
                    resource_kind="directory",
                    name=path,
                    tag=name.rpartition("-")[2],
                    removal_command=removal,
                )
            )
        return machines

    def _submit_job(self, machine: SlurmMachine) -> str:
        """Submit a job and return its id. Jobs of hosts that are wanted at the same time form one array."""

        def submit(host_dirs: list[str]) -> list[str]:
            """Submit one job, or an array of jobs, and return the job ids."""
            name = ARRAY_JOB_NAME if len(host_dirs) > 1 else os.path.basename(host_dirs[0]).rpartition("-")[0]
            arguments = [
                f"--job-name={name}",
                f"--comment={build_comment(machine.whose or '', host_dirs, is_shared=machine.shared)}",
            ]
            arguments += [f"--array=0-{len(host_dirs) - 1}"] if len(host_dirs) > 1 else []
            arguments += ["--ntasks=1", "--nodes=1", "--output=/dev/null", "--chdir=/", *machine.args]
            cases = "".join(f"{index}) place={shell.quote(host_dir)} ;;\n" for index, host_dir in enumerate(host_dirs))
            prologue = f"case ${{SLURM_ARRAY_TASK_ID:-0}} in\n{cases}esac\n"
            prologue += f"shared={'1' if machine.shared else ''} grace={GRACE_SECONDS}\n"
            job = self._calls.submit(
                arguments, f"#!/bin/sh\n{prologue}{scripts.read_program_beside(__file__, 'job.sh')}"
            )
            return [job] if len(host_dirs) == 1 else [f"{job}_{index}" for index in range(len(host_dirs))]

        alike = (os.path.dirname(machine.home), machine.shared, *machine.args)
        return self._gathering.submit_job(machine.home, alike, submit)

    def _wait_for_job(self, name: str, machine: SlurmMachine, job: str) -> SlurmMachine:
        """Wait until the job runs and return the machine with it. After `wait` seconds, cancel it and raise EngineBusy."""
        started, last_reason, pause = time.monotonic(), "", 0.05
        while True:
            jobs = self._calls.list_jobs("-t", "all", "-j", job)
            state, reason = (jobs[0].state, jobs[0].reason) if jobs else ("gone", "")
            if state == "R":
                return machine.replace(job=job, number=jobs[0].number, ends_at=jobs[0].ends_at)
            if state not in _LIVE_STATES:
                raise MngrError(
                    f"the job {job} of {name} ended immediately ({state})",
                    f"see the state of the job: scontrol show job {job}",
                )
            waited = time.monotonic() - started
            if waited > self.wait:
                self._calls.cancel([job])
                raise EngineBusy(
                    f"the job of {name} was still pending after {time_format.format_age(waited)}: {reason}",
                    f"wait longer: mngr config set providers.{self._provider}.wait 1h; or ask for less; see the queue: squeue --me",
                )
            if waited > 2 and reason not in ("None", last_reason):
                last_reason = reason
                self._note(f"the job {job} of {name} is pending: {reason}")
            time.sleep(pause)
            pause = min(pause * 1.3, 2.0)

    def _list_jobs(self, name: str, machine: SlurmMachine) -> list[SlurmJob]:
        """Return the jobs of this host that are in the queue."""
        return [job for job in self._calls.list_jobs(f"--name={name},{ARRAY_JOB_NAME}") if job.tag == machine.tag]

    def _cancel_jobs(self, name: str, machine: SlurmMachine) -> None:
        """Cancel all jobs of this host and wait for their end. The job script ends the agents first."""
        deadline, pause = time.monotonic() + END_TIMEOUT, 0.05
        jobs = self._list_jobs(name, machine)
        if any(job.state != "CG" for job in jobs):
            self._calls.cancel([job.id for job in jobs if job.state != "CG"])
        while jobs and time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(pause * 1.3, 1.0)
            jobs = self._list_jobs(name, machine)
        remaining = [
            job.id for job in jobs if job.state != "CG"
        ]  # A completing job has no processes of the host any more.
        if remaining:
            raise MngrError(
                f"the job {remaining[0]} of {name} does not end", f"cancel it by hand: scancel {remaining[0]}"
            )


class SlurmProvider(OnDemandProvider[SlurmMachine]):
    """Provides Slurm jobs as hosts."""

    project_options = ("time", "cpus", "memory", "gres", "constraint")

    def make_engine(self, name: str, home: Home, options: dict[str, object], note: Note) -> Engine[SlurmMachine]:
        engine = SlurmEngine(name, home, options, note)
        self.patience = engine.wait
        return engine
