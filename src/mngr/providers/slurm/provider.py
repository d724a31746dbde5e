"""Jobs of Slurm as hosts: `sbatch` makes one, `srun` brings commands into it, its files are on the cluster's shared disk."""

from __future__ import annotations

import os
import time

from mngr.base import clock, shell
from mngr.base.config import as_list
from mngr.base.errors import Busy, HostGone, MngrError, UsageError
from mngr.host import registry, scripts
from mngr.providers.shared.on_demand import EngineDefaults, Found, RentedProvider
from mngr.providers.slurm.array import Gathering
from mngr.providers.slurm.calls import ARRAY, Calls, comment, complaint
from mngr.providers.slurm.wire import SlurmWire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mngr.base.paths import Home
    from mngr.providers.shared.on_demand import Engine, Facts, Note
    from mngr.providers.slurm.calls import Job

PLACE = "~/.mngr-hosts"
WAIT = "10m"  # for a job that is pending
ENDS = 30.0  # seconds that a cancelled job may take to be over
GRACE = "5"  # seconds that agents have when the job ends; Slurm gives 30
_SINGLE = ("partition", "account", "qos", "time", "gres", "constraint")  # as sbatch calls them
_ALIVE = ("PD", "CF", "R", "RQ", "S")
_READY = 'case $1 in "~"/*) set -- "$HOME/${1#??}" ;; esac; until [ -e "$1/keeper" ]; do sleep 0.05; done'
_REMOVE = """
case $1 in "~"/*) place=$HOME/${1#??} ;; *) place=$1 ;; esac
rm -rf -- "$place" 2>/dev/null || { chmod -R u+rwX -- "$place"; rm -rf -- "$place"; } || exit
rmdir "${place%/*}" "${place%/*/*}" 2>/dev/null || :
"""
_FIND = 'case $1 in "~"/*) cd "$HOME/${1#??}" ;; *) cd "$1" ;; esac 2>/dev/null && pwd -P && ls -1'
_NO, _YES = ("false", "no", "off", "0"), ("true", "yes", "on", "1")


class SlurmEngine(EngineDefaults):
    """A job, or one of an array, for each host. Its comment says whose it is, its name and tag, and where its files are."""

    options: tuple[str, ...] = (*_SINGLE, "cpus", "memory", "home", "shared", "args")
    settings: tuple[str, ...] = ("through", "wait")
    can_stop = True
    can_snapshot = False

    def __init__(self, name: str, home: Home, options: dict[str, Any], note: Note) -> None:
        self._provider = name
        self._key = registry.key(home)
        self._note = note
        self._calls = Calls([str(word) for word in as_list(options.get("through")) if word])
        self._gathering = Gathering()
        self._root = str(options.get("home") or PLACE)
        self.wait = clock.parse_length(str(options.get("wait") or WAIT))

    def plan(self, name: str, wish: Facts) -> Facts:
        tag = os.urandom(6).hex()
        root = str(wish.get("home") or PLACE).rstrip("/")
        if not root.startswith(("/", "~/")):
            raise UsageError(f"home cannot be {root!r}", "a directory of the cluster: /… or ~/…")
        said = str(wish.get("shared", True)).lower()
        if said not in (*_NO, *_YES):
            raise UsageError(f"shared cannot be {said!r}", "true or false")
        is_shared = said in _YES
        place = f"{root}/{self._key}/{name}-{tag}"
        words = [f"--{key}={wish[key]}" for key in _SINGLE if wish.get(key)]
        words += [f"--cpus-per-task={wish['cpus']}"] if wish.get("cpus") else []
        words += [f"--mem={wish['memory']}"] if wish.get("memory") else []
        words += [str(word) for word in as_list(wish.get("args")) if word]
        return {"tag": tag, "home": place, "shared": is_shared, "args": words, "whose": self._key}

    def make(self, name: str, facts: Facts) -> Facts:
        job = self._submit(facts)
        made = {**facts, **self._await(name, job)}
        program = shell.join(["sh", "-c", _READY, "sh", str(facts["home"])])
        ready = shell.run(self.wire(name, made).argv(program), timeout=60.0)
        if ready.code:
            said = complaint(ready)
            raise MngrError(f"the job {job} does not answer: {said}", f"see: scontrol show job {job}")
        return made

    def join(self, name: str) -> Facts | None:
        for job in self._calls.jobs(f"--name={name},{ARRAY}"):
            if job.name == name and job.state in _ALIVE:
                known = {
                    "tag": job.tag,
                    "home": job.place,
                    "shared": job.is_shared,
                    "args": [],
                    "whose": job.whose,
                }
                return {**known, **self._await(name, job.id)}
        return None

    def wire(self, name: str, facts: Facts) -> SlurmWire:
        return SlurmWire(
            self._calls, self._provider, name, facts["job"], facts["number"], is_shared=facts["shared"]
        )

    def start(self, name: str, facts: Facts) -> Facts:
        alive = [job for job in self._jobs(name, facts) if job.state in _ALIVE]
        if alive:
            return {**facts, **self._await(name, alive[0].id)}
        if not facts["shared"]:
            raise HostGone(self._provider, name, "its job has ended, and its files were on the node")
        return self.make(name, facts)

    def stop(self, name: str, facts: Facts) -> Facts:
        self.refuse_stop(name, facts)
        self._end(name, facts)
        return facts

    def refuse_stop(self, name: str, facts: Facts) -> None:
        if not facts["shared"]:
            raise MngrError(
                f"{name} cannot be stopped, for its files are on the disk of its node",
                "stop its agents, or make hosts with -b shared=true",
            )

    def remove(self, name: str, facts: Facts) -> None:
        self._end(name, facts)
        place = str(facts["home"])
        if facts["shared"] and place.endswith(f"-{facts['tag']}"):
            gone = self._calls.sh(_REMOVE, place)
            if gone.code:
                raise MngrError(f"{place} could not be removed: {gone.problem}", "remove it by hand")

    def find(self) -> list[Found]:
        found = [
            Found(what="job", name=job.name, tag=job.tag, removal=f"scancel {job.id}")
            for job in self._calls.jobs()
            if job.whose == self._key
        ]
        listed = self._calls.sh(_FIND, f"{self._root.rstrip('/')}/{self._key}")
        top, *names = listed.text.splitlines() if listed.code == 0 else [""]
        for name in names:
            place = os.path.join(top, name)
            removal = shell.join(["rm", "-r", place])
            found.append(Found(what="directory", name=place, tag=name.rpartition("-")[2], removal=removal))
        return found

    def _submit(self, facts: Facts) -> str:
        """The id of a new job; those of hosts that are wanted at the same time are elements of one array."""

        def submit(places: list[str]) -> list[str]:
            name = ARRAY if len(places) > 1 else os.path.basename(places[0]).rpartition("-")[0]
            words = [
                f"--job-name={name}",
                f"--comment={comment(facts['whose'], places, is_shared=facts['shared'])}",
            ]
            words += [f"--array=0-{len(places) - 1}"] if len(places) > 1 else []
            words += ["--ntasks=1", "--nodes=1", "--output=/dev/null", "--chdir=/", *facts["args"]]
            mine = "".join(f"{at}) place={shell.quote(place)} ;;\n" for at, place in enumerate(places))
            head = f"case ${{SLURM_ARRAY_TASK_ID:-0}} in\n{mine}esac\n"
            head += f"shared={'1' if facts['shared'] else ''} grace={GRACE}\n"
            job = self._calls.submit(words, f"#!/bin/sh\n{head}{scripts.program_beside(__file__, 'job.sh')}")
            return [job] if len(places) == 1 else [f"{job}_{at}" for at in range(len(places))]

        alike = (os.path.dirname(facts["home"]), facts["shared"], *facts["args"])
        return self._gathering.submit(str(facts["home"]), alike, submit)

    def _await(self, name: str, job: str) -> Facts:
        """What is known of the job when it runs; Busy when it is still pending after `wait`, and then it is no more."""
        began, told, pause = time.monotonic(), "", 0.05
        while True:
            found = self._calls.jobs("-t", "all", "-j", job)
            state, reason = (found[0].state, found[0].reason) if found else ("gone", "")
            if state == "R":
                return {"job": job, "number": found[0].number, "ends_at": found[0].ends_at}
            if state not in _ALIVE:
                raise MngrError(
                    f"the job {job} of {name} ended at once ({state})", f"see: scontrol show job {job}"
                )
            waited = time.monotonic() - began
            if waited > self.wait:
                self._calls.cancel([job])
                raise Busy(
                    f"the job of {name} was still pending after {clock.age(waited)}: {reason}",
                    f"wait longer ([providers.{self._provider}] wait), or ask for less; see: squeue, sinfo",
                )
            if waited > 2 and reason not in ("None", told):
                told = reason
                self._note(f"the job {job} of {name} is pending: {reason}")
            time.sleep(pause)
            pause = min(pause * 1.3, 2.0)

    def _jobs(self, name: str, facts: Facts) -> list[Job]:
        """What is in the queue of this host."""
        return [job for job in self._calls.jobs(f"--name={name},{ARRAY}") if job.tag == facts["tag"]]

    def _end(self, name: str, facts: Facts) -> None:
        """No job of this host is left; its script ends agents in order and then itself."""
        deadline, pause = time.monotonic() + ENDS, 0.05
        jobs = self._jobs(name, facts)
        if any(job.state != "CG" for job in jobs):
            self._calls.cancel([job.id for job in jobs if job.state != "CG"])
        while jobs and time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(pause * 1.3, 1.0)
            jobs = self._jobs(name, facts)
        left = [
            job.id for job in jobs if job.state != "CG"
        ]  # what is completing has no processes of ours any more
        if left:
            raise MngrError(f"the job {left[0]} of {name} does not end", f"see: scontrol show job {left[0]}")


class SlurmProvider(RentedProvider):
    """Jobs as hosts."""

    from_project = ("time", "cpus", "memory", "gres", "constraint")

    def hire(self, name: str, home: Home, options: dict[str, Any], note: Note) -> Engine:
        engine = SlurmEngine(name, home, options, note)
        self.patience = engine.wait
        return engine
