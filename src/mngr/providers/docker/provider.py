"""Containers, by the `docker` or `podman` program. One is one host, with a volume of its own for its user's home."""

from __future__ import annotations

import json
import os

from mngr.base.config import as_list
from mngr.base.errors import MngrError, NotFound, UsageError, closest
from mngr.base.paths import find_project_root
from mngr.host import registry, scripts, store
from mngr.host.remote_host import PipeHost
from mngr.providers.docker import images, leftovers, program, snapshots
from mngr.providers.docker.program import DockerWire, Engine
from mngr.providers.shared import first_contact
from mngr.providers.shared.host_options import author, made_from, refuse_options
from mngr.providers.shared.phases import clear_notes, host_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable
    from typing import Any

    from mngr.base.paths import Home
    from mngr.host.protocol import Host, Leftover
    from mngr.providers.docker.images import Image

# What -b can say of a host, and a setting of all; the engine itself is the provider's.
OPTIONS = (
    "image",
    "dockerfile",
    "snapshot",
    "memory",
    "cpus",
    "pids",
    "network",
    "user",
    "volumes",
    "run_args",
)
_ORIGINS = ("image", "dockerfile", "snapshot")
ENGINE = ("kind", "program", "context", "host", "cost_per_hour")
USERS = {"agent": ("1000:1000", "/home/agent"), "root": ("0:0", "/root")}
PIDS = "4096"
STARTS = 120.0  # seconds that an engine may take to start a container
HALT = "/tmp/.mngr-halt"
_NEEDS = "use an image that has sh, git, tmux and tar, for example by a Dockerfile that adds them"
# The container's first process: ends when asked to, or when the watcher leaves word that all is idle.
_STAY = 'trap "exit 0" TERM; rm -f "$0"; while [ ! -e "$0" ]; do sleep 5 & wait $!; done'


class DockerProvider:
    """Makes a container for each host. What it knows of them is in the registry; their labels say whose they are."""

    can_create_hosts = True
    can_snapshot_hosts = True
    can_stop_hosts = True
    from_project = (
        "image",
        "dockerfile",
        "arg",
        "memory",
        "cpus",
        "pids",
    )  # nothing of these opens a way out

    def __init__(
        self, name: str, home: Home, options: dict[str, Any], note: Callable[[str], None] = lambda text: None
    ) -> None:
        self.name = name
        self._home = home
        self._options = options
        self._note = note

    def list(self) -> list[str]:
        return registry.names(self._home, self.name)

    def open(self, host: str) -> Host:
        facts = self._facts(host)
        return PipeHost(host, self.name, self._wire(host, facts), str(facts["home"]), int(facts["uid"]))

    def create(self, host: str | None, options: dict[str, Any]) -> Host:
        if host is None:
            name = f"mngr-{os.urandom(4).hex()}"
            self._make(name, options, auto=True)
            return self.open(name)
        with host_lock(self._home, self.name, host):
            clear_notes(self._home, self.name, host, self._remove)
            if registry.load(self._home, self.name, host) is not None:
                refuse_options(host, options)
                self.start(host)
            elif not self._join(host, options):
                before = registry.load(self._home, self.name, host, "gone") or {}
                self._make(host, options or made_from(self._home, before), auto=before.get("auto") is True)
        return self.open(host)

    def start(self, host: str) -> None:
        facts = self._facts(host)
        engine = Engine(facts["engine"])
        result = engine.run("start", facts["container"], timeout=STARTS)
        if program.is_gone(result) and facts.get("argv"):
            self._make_again(engine, host, facts)
        elif result.code:
            raise _failed(f"{host} could not be started", result.err)

    def stop(self, host: str) -> None:
        facts = self._facts(host)
        Engine(facts["engine"]).must(f"{host} could not be stopped", "stop", "-t", "5", facts["container"])

    def destroy(self, host: str) -> None:
        with host_lock(self._home, self.name, host):
            facts = self._facts(host)
            if not facts.get("guest"):
                registry.save(self._home, self.name, host, {**facts, "owner": store.this_process()}, "ending")
                self._remove(host, facts)
            else:
                registry.forget(self._home, self.name, host)

    def snapshot(self, host: str, place: str) -> dict[str, Any]:
        facts = self._facts(host)
        tag = self._tag(place)
        return snapshots.take(Engine(facts["engine"]), facts["container"], self.open(host), place, tag)

    def unfinished(self, host: str, place: str) -> dict[str, Any]:
        return {"image": self._tag(place), "engine": self._facts(host)["engine"]}

    def _tag(self, place: str) -> str:
        """The name of an image, by that of the snapshot."""
        return f"mngr-snapshot:{registry.key(self._home)}-{os.path.basename(place).partition('.')[0]}"

    def drop_snapshot(self, facts: dict[str, Any]) -> None:
        result = Engine(facts["engine"]).run("rmi", str(facts["image"]))
        if result.code and not program.lacks_image(result):
            raise _failed("the image of the snapshot could not be removed", result.err)

    def leftovers(self) -> builtins.list[Leftover]:
        engine = program.choose(self._options)
        return leftovers.find(self._home, self.name, engine, registry.key(self._home), self._remove)

    def _facts(self, host: str) -> dict[str, Any]:
        facts = registry.load(self._home, self.name, host)
        if facts is None:
            known = self.list()
            hint = (
                closest(host, known) or f"make it with its first agent: mngr create NAME@{host}.{self.name}"
            )
            raise NotFound(f"{self.name} has no host {host!r}", hint)
        return facts

    def _wire(self, host: str, facts: dict[str, Any]) -> DockerWire:
        place = (self.name, host, str(facts["container"]))
        return DockerWire(Engine(facts["engine"]), *place, *USERS[facts["user"]])

    def _check(self, options: dict[str, Any]) -> dict[str, Any]:
        """The settings with what was asked for this host in their place; UsageError when it makes no sense."""
        for key in self._options:
            if key not in (*OPTIONS, *ENGINE) and not key.startswith("arg."):
                hint = closest(key, [*OPTIONS, *ENGINE]) or "known: " + ", ".join((*OPTIONS, *ENGINE))
                raise UsageError(f"[providers.{self.name}] has no setting {key!r}", hint)
        for key in options:
            if key not in OPTIONS and not key.startswith("arg."):
                hint = closest(key, list(OPTIONS)) or f"known: {', '.join(OPTIONS)}, arg.NAME"
                raise UsageError(f"-b: {self.name} has no option {key!r}", hint)
        kept = self._options
        if any(options.get(key) for key in _ORIGINS):  # the one replaces the other
            kept = {k: v for k, v in kept.items() if k not in _ORIGINS and k[:4] != "arg."}
        merged = {**kept, **options}
        if options.get("network") == "on" and kept.get("network") != "off":
            merged["network"] = kept.get("network")
        if merged.get("user", "agent") not in USERS:
            raise UsageError(f"user cannot be {merged['user']!r}", "agent, who is made for it, or root")
        if str(merged.get("network") or "").startswith("allow="):
            raise UsageError(
                f"--network allow=… is not for {self.name} hosts",
                "they have --network on or off; on this machine, --sandbox --network allow=… works",
            )
        return merged

    def _make(self, name: str, options: dict[str, Any], *, auto: bool) -> None:
        """A new container. Its note is written first: what is interrupted is known, and `gc` takes it away."""
        if options.get("dockerfile"):
            options = {
                **options,
                "dockerfile": os.path.abspath(os.path.expanduser(str(options["dockerfile"]))),
            }
        wish = self._check(options)
        engine = program.choose(self._options)
        image, kept = images.choose(wish, find_project_root(os.getcwd()) or os.getcwd(), self._home)
        user = str(wish.get("user") or "agent")
        volume = f"mngr-{os.urandom(6).hex()}"
        network = "off" if wish.get("network") == "off" else "on"
        about = {"home": registry.key(self._home), "user": user, "volume": volume, "network": network}
        labels = [word for key, value in about.items() for word in ("--label", f"mngr.{key}={value}")]
        argv = _argv(name, volume, user, labels, image.name, wish)
        facts: dict[str, Any] = {
            "engine": engine.words, "volume": volume, "user": user, "network": network, "image": image.name,
            "argv": argv, "options": options, "auto": auto,
        }  # fmt: skip
        registry.save(self._home, self.name, name, {**facts, "owner": store.this_process()}, "making")
        try:
            engine.must("the volume could not be made", "volume", "create", *labels, volume)
        except MngrError:
            registry.forget(self._home, self.name, name)
            raise
        try:
            facts["container"] = self._run(engine, name, argv, image, user)
            found = self._settle_in(engine, name, facts)
            if kept is not None:
                host = PipeHost(name, self.name, self._wire(name, facts), found["home"], int(found["uid"]))
                snapshots.fill(host, kept)
        except BaseException as error:
            try:
                self._remove(name, facts)
            except MngrError:
                pass  # it stays noted, for `gc`
            if isinstance(error, first_contact.Lacking):
                what = error.message.removeprefix(f"{name} has ")
                raise MngrError(f"{image.about} has {what}", _NEEDS) from None
            raise
        registry.save(self._home, self.name, name, {**found, **facts, "maker": store.this_process()})
        registry.drop(self._home, self.name, name, "making", "gone")

    def _run(
        self, engine: Engine, name: str, argv: builtins.list[str], image: Image | None, user: str
    ) -> str:
        """Start the container, get its image first if it is not here, and give it its user; what the engine calls it."""
        result = engine.run(*argv, timeout=STARTS)
        if program.lacks_image(result) and image is not None:
            images.get(engine, image, self._note)
            result = engine.run(*argv, timeout=STARTS)
        if result.code:
            raise _failed(f"the container {name} could not be started", result.err)
        container = result.text.split("\n")[-1].strip()
        number, home = USERS[user]
        argv = [
            "sh",
            "-c",
            scripts.program("user.sh"),
            "user.sh",
            user,
            number.partition(":")[0],
            home,
            HALT,
            *author(),
        ]
        done = engine.run("exec", "-u", "0:0", container, *argv)
        if program.is_stopped(done):
            said = program.complaint(engine.run("logs", "--tail", "5", container).err)
            raise MngrError(f"the container ended at once: {said}", _NEEDS)
        if done.code:
            raise _failed(f"the user {user} could not be made in {name}", done.err)
        return container

    def _make_again(self, engine: Engine, host: str, facts: dict[str, Any]) -> None:
        """The container was taken away by somebody; its volume holds everything that agents have."""
        if engine.run("volume", "inspect", facts["volume"]).code:
            raise NotFound(
                f"the container {host} is gone, and so is its volume {facts['volume']}",
                f"forget it: mngr destroy @{host}.{self.name}",
            )
        self._note(f"the container {host} was gone and is made anew from its volume")
        container = self._run(engine, host, facts["argv"], None, facts["user"])
        registry.save(self._home, self.name, host, {**facts, "container": container})

    def _join(self, name: str, options: dict[str, Any]) -> bool:
        """Use a container of that name that is there already; False when there is none."""
        engine = program.choose(self._options)
        result = engine.run("container", "inspect", "--format", "{{.Id}} {{json .Config.Labels}}", name)
        if program.is_gone(result):
            return False
        if result.code:
            raise _failed(f"{name} could not be looked at", result.err)
        container, _, text = result.text.partition(" ")
        labels: dict[str, str] = json.loads(text) or {}
        if labels.get("mngr.user") not in USERS or "mngr.home" not in labels:
            raise MngrError(
                f"there is a container {name!r} that mngr did not make", "choose another name for the host"
            )
        refuse_options(name, options)
        facts = {
            "engine": engine.words, "container": container, "volume": labels.get("mngr.volume"), "user": labels["mngr.user"],
            "network": labels.get("mngr.network", "on"), "guest": labels["mngr.home"] != registry.key(self._home),
        }  # fmt: skip
        started = engine.run("start", container, timeout=STARTS)
        if started.code:
            raise _failed(f"{name} could not be started", started.err)
        found = self._settle_in(engine, name, facts)
        registry.save(self._home, self.name, name, {**found, **facts})
        return True

    def _settle_in(self, engine: Engine, name: str, facts: dict[str, Any]) -> dict[str, Any]:
        """What is known of a host with a home for agents; they find what the image sets, too."""
        words = ("container", "inspect", "--format", "{{json .Config.Env}}", facts["container"])
        said = engine.must(f"{name} could not be looked at", *words)
        image = dict(word.split("=", 1) for word in json.loads(said or "[]") or [] if "=" in word)
        found = first_contact.settle_in(self._wire(name, facts), name)
        return {**found, "env": {**image, **found["env"]}}

    def _remove(self, name: str, facts: dict[str, Any]) -> None:
        """Take container and volume away; that they are not there is no trouble. What it was like stays known."""
        engine = Engine(facts["engine"])
        # Not by its name, which somebody else's may have by now.
        mine = ("ps", "-a", "-q", "--no-trunc", "--filter", f"label=mngr.volume={facts['volume']}")
        for container in engine.must(f"{name} could not be looked for", *mine).split():
            gone = engine.run("rm", "-f", "-v", container, timeout=STARTS)
            if gone.code and not program.is_gone(gone):
                raise _failed(f"the container {name} could not be removed", gone.err)
        result = engine.run("volume", "rm", "-f", facts["volume"])
        if result.code and b"no such volume" not in result.err:
            raise _failed(f"the volume {facts['volume']} could not be removed", result.err)
        if registry.load(self._home, self.name, name) is not None:  # else it never came to be
            kept = {key: facts.get(key) for key in ("options", "auto")}
            registry.save(self._home, self.name, name, kept, "gone")
        registry.forget(self._home, self.name, name)


def _argv(
    name: str, volume: str, user: str, labels: list[str], image: str, wish: dict[str, Any]
) -> list[str]:
    """The words of `run`: as little power as an agent needs."""
    _, home = USERS[user]
    argv = ["run", "-d", "--pull", "never", "--init", "--name", name, "--hostname", name[:63]]
    argv += [
        *labels,
        "-v",
        f"{volume}:{home}",
        "-w",
        home,
        "--user",
        "0:0",
        "--security-opt",
        "no-new-privileges",
    ]
    if user != "root":
        argv += ["--cap-drop", "ALL", "--cap-add", "CHOWN"]  # to give the new user his home
    argv += ["--pids-limit", str(wish.get("pids") or PIDS)]
    for key in ("memory", "cpus"):
        if wish.get(key):
            argv += [f"--{key}", str(wish[key])]
    if wish.get("network") not in (None, "on"):
        argv += ["--network", "none" if wish["network"] == "off" else str(wish["network"])]
    for place in filter(None, as_list(wish.get("volumes"))):
        argv += ["-v", str(place)]
    argv += [str(word) for word in as_list(wish.get("run_args")) if word]
    return [*argv, "--entrypoint", "sh", image, "-c", _STAY, HALT]


def _failed(what: str, err: bytes) -> MngrError:
    said = program.complaint(err)
    return MngrError(f"{what}: {said}", program.hint(said))
