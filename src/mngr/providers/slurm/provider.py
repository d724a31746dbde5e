"""Jobs of Slurm as hosts: `sbatch` makes one, `srun` brings commands into it, its files are on the cluster's shared disk."""

from __future__ import annotations

import os
import time

from mngr.base import clock, shell
from mngr.base.config import as_list
from mngr.base.errors import EngineBusy, HostGone, MngrError, UsageError
from mngr.host import registry, scripts
from mngr.providers.shared.on_demand import EngineDefaults, FoundMachine, OnDemandProvider
from mngr.providers.slurm.job_arrays import JobBatcher
from mngr.providers.slurm.slurm_programs import ARRAY_JOB_NAME, SlurmPrograms, build_comment, parse_error
from mngr.providers.slurm.wire import SlurmWire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mngr.base.paths import Home
    from mngr.providers.shared.on_demand import Engine, Facts, Note
    from mngr.providers.slurm.slurm_programs import SlurmJob

DEFAULT_DIR = "~/.mngr-hosts"
DEFAULT_WAIT = "10m"  # for a job that is pending
END_TIMEOUT = 30.0  # seconds that a cancelled job may take to be over
GRACE_SECONDS = "5"  # seconds that agents have when the job ends; Slurm gives 30
_SBATCH_OPTIONS = ("partition", "account", "qos", "time", "gres", "constraint")  # as sbatch calls them
_LIVE_STATES = ("PD", "CF", "R", "RQ", "S")
_WAIT_READY_SCRIPT = 'case $1 in "~"/*) set -- "$HOME/${1#??}" ;; esac; until [ -e "$1/keeper" ]; do sleep 0.05; done'
_REMOVE_SCRIPT = """
case $1 in "~"/*) place=$HOME/${1#??} ;; *) place=$1 ;; esac
rm -rf -- "$place" 2>/dev/null || { chmod -R u+rwX -- "$place"; rm -rf -- "$place"; } || exit
rmdir "${place%/*}" "${place%/*/*}" 2>/dev/null || :
"""
_FIND_SCRIPT = 'case $1 in "~"/*) cd "$HOME/${1#??}" ;; *) cd "$1" ;; esac 2>/dev/null && pwd -P && ls -1'
_NO, _YES = ("false", "no", "off", "0"), ("true", "yes", "on", "1")


class SlurmEngine(EngineDefaults):
    """A job, or one of an array, for each host. Its comment says whose it is, its name and tag, and where its files are."""

    options: tuple[str, ...] = (*_SBATCH_OPTIONS, "cpus", "memory", "home", "shared", "args")
    settings: tuple[str, ...] = ("through", "wait")
    can_stop = True
    can_snapshot = False

    def __init__(self, name: str, home: Home, options: dict[str, Any], note: Note) -> None:
        self._provider = name
        self._key = registry.compute_owner_key(home)
        self._note = note
        self._calls = SlurmPrograms([str(word) for word in as_list(options.get("through")) if word])
        self._gathering = JobBatcher()
        self._root = str(options.get("home") or DEFAULT_DIR)
        self.wait = clock.parse_duration(str(options.get("wait") or DEFAULT_WAIT))

    def plan_machine(self, name: str, wish: Facts) -> Facts:
        tag = os.urandom(6).hex()
        root = str(wish.get("home") or DEFAULT_DIR).rstrip("/")
        if not root.startswith(("/", "~/")):
            raise UsageError(f"home cannot be {root!r}", "a directory of the cluster: /… or ~/…")
        said = str(wish.get("shared", True)).lower()
        if said not in (*_NO, *_YES):
            raise UsageError(f"shared cannot be {said!r}", "true or false")
        is_shared = said in _YES
        place = f"{root}/{self._key}/{name}-{tag}"
        words = [f"--{key}={wish[key]}" for key in _SBATCH_OPTIONS if wish.get(key)]
        words += [f"--cpus-per-task={wish['cpus']}"] if wish.get("cpus") else []
        words += [f"--mem={wish['memory']}"] if wish.get("memory") else []
        words += [str(word) for word in as_list(wish.get("args")) if word]
        return {"tag": tag, "home": place, "shared": is_shared, "args": words, "whose": self._key}

    def create(self, name: str, facts: Facts) -> Facts:
        job = self._submit_job(facts)
        made = {**facts, **self._wait_for_job(name, job)}
        program = shell.join(["sh", "-c", _WAIT_READY_SCRIPT, "sh", str(facts["home"])])
        ready = shell.run(self.open_wire(name, made).build_argv(program), timeout=60.0)
        if ready.code:
            said = parse_error(ready)
            raise MngrError(f"the job {job} does not answer: {said}", f"see: scontrol show job {job}")
        return made

    def find_existing(self, name: str) -> Facts | None:
        for job in self._calls.list_jobs(f"--name={name},{ARRAY_JOB_NAME}"):
            if job.name == name and job.state in _LIVE_STATES:
                known = {
                    "tag": job.tag,
                    "home": job.host_dir,
                    "shared": job.is_shared,
                    "args": [],
                    "whose": job.home_key,
                }
                return {**known, **self._wait_for_job(name, job.id)}
        return None

    def open_wire(self, name: str, facts: Facts) -> SlurmWire:
        return SlurmWire(self._calls, self._provider, name, facts["job"], facts["number"], is_shared=facts["shared"])

    def start(self, name: str, facts: Facts) -> Facts:
        alive = [job for job in self._list_jobs(name, facts) if job.state in _LIVE_STATES]
        if alive:
            return {**facts, **self._wait_for_job(name, alive[0].id)}
        if not facts["shared"]:
            raise HostGone(self._provider, name, "its job has ended, and its files were on the node")
        return self.create(name, facts)

    def stop(self, name: str, facts: Facts) -> Facts:
        self.check_stoppable(name, facts)
        self._cancel_jobs(name, facts)
        return facts

    def check_stoppable(self, name: str, facts: Facts) -> None:
        if not facts["shared"]:
            raise MngrError(
                f"{name} cannot be stopped, for its files are on the disk of its node",
                "stop its agents, or make hosts with -b shared=true",
            )

    def remove(self, name: str, facts: Facts) -> None:
        self._cancel_jobs(name, facts)
        place = str(facts["home"])
        if facts["shared"] and place.endswith(f"-{facts['tag']}"):
            gone = self._calls.run_shell(_REMOVE_SCRIPT, place)
            if gone.code:
                raise MngrError(f"{place} could not be removed: {gone.error_line}", "remove it by hand")

    def list_machines(self) -> list[FoundMachine]:
        found = [
            FoundMachine(resource_kind="job", name=job.name, tag=job.tag, removal_command=f"scancel {job.id}")
            for job in self._calls.list_jobs()
            if job.home_key == self._key
        ]
        listed = self._calls.run_shell(_FIND_SCRIPT, f"{self._root.rstrip('/')}/{self._key}")
        top, *names = listed.text.splitlines() if listed.code == 0 else [""]
        for name in names:
            place = os.path.join(top, name)
            removal = shell.join(["rm", "-r", place])
            found.append(
                FoundMachine(
                    resource_kind="directory",
                    name=place,
                    tag=name.rpartition("-")[2],
                    removal_command=removal,
                )
            )
        return found

    def _submit_job(self, facts: Facts) -> str:
        """The id of a new job; those of hosts that are wanted at the same time are elements of one array."""

        def submit(places: list[str]) -> list[str]:
            name = ARRAY_JOB_NAME if len(places) > 1 else os.path.basename(places[0]).rpartition("-")[0]
            words = [
                f"--job-name={name}",
                f"--comment={build_comment(facts['whose'], places, is_shared=facts['shared'])}",
            ]
            words += [f"--array=0-{len(places) - 1}"] if len(places) > 1 else []
            words += ["--ntasks=1", "--nodes=1", "--output=/dev/null", "--chdir=/", *facts["args"]]
            mine = "".join(f"{at}) place={shell.quote(place)} ;;\n" for at, place in enumerate(places))
            head = f"case ${{SLURM_ARRAY_TASK_ID:-0}} in\n{mine}esac\n"
            head += f"shared={'1' if facts['shared'] else ''} grace={GRACE_SECONDS}\n"
            job = self._calls.submit(words, f"#!/bin/sh\n{head}{scripts.read_program_beside(__file__, 'job.sh')}")
            return [job] if len(places) == 1 else [f"{job}_{at}" for at in range(len(places))]

        alike = (os.path.dirname(facts["home"]), facts["shared"], *facts["args"])
        return self._gathering.submit_job(str(facts["home"]), alike, submit)

    def _wait_for_job(self, name: str, job: str) -> Facts:
        """What is known of the job when it runs; Busy when it is still pending after `wait`, and then it is no more."""
        began, told, pause = time.monotonic(), "", 0.05
        while True:
            found = self._calls.list_jobs("-t", "all", "-j", job)
            state, reason = (found[0].state, found[0].reason) if found else ("gone", "")
            if state == "R":
                return {"job": job, "number": found[0].number, "ends_at": found[0].ends_at}
            if state not in _LIVE_STATES:
                raise MngrError(f"the job {job} of {name} ended at once ({state})", f"see: scontrol show job {job}")
            waited = time.monotonic() - began
            if waited > self.wait:
                self._calls.cancel([job])
                raise EngineBusy(
                    f"the job of {name} was still pending after {clock.format_age(waited)}: {reason}",
                    f"wait longer ([providers.{self._provider}] wait), or ask for less; see: squeue, sinfo",
                )
            if waited > 2 and reason not in ("None", told):
                told = reason
                self._note(f"the job {job} of {name} is pending: {reason}")
            time.sleep(pause)
            pause = min(pause * 1.3, 2.0)

    def _list_jobs(self, name: str, facts: Facts) -> list[SlurmJob]:
        """What is in the queue of this host."""
        return [job for job in self._calls.list_jobs(f"--name={name},{ARRAY_JOB_NAME}") if job.tag == facts["tag"]]

    def _cancel_jobs(self, name: str, facts: Facts) -> None:
        """No job of this host is left; its script ends agents in order and then itself."""
        deadline, pause = time.monotonic() + END_TIMEOUT, 0.05
        jobs = self._list_jobs(name, facts)
        if any(job.state != "CG" for job in jobs):
            self._calls.cancel([job.id for job in jobs if job.state != "CG"])
        while jobs and time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(pause * 1.3, 1.0)
            jobs = self._list_jobs(name, facts)
        left = [job.id for job in jobs if job.state != "CG"]  # what is completing has no processes of ours any more
        if left:
            raise MngrError(f"the job {left[0]} of {name} does not end", f"see: scontrol show job {left[0]}")


class SlurmProvider(OnDemandProvider):
    """Jobs as hosts."""

    project_options = ("time", "cpus", "memory", "gres", "constraint")

    def make_engine(self, name: str, home: Home, options: dict[str, Any], note: Note) -> Engine:
        engine = SlurmEngine(name, home, options, note)
        self.patience = engine.wait
        return engine
