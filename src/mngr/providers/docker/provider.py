"""Containers, by the `docker` or `podman` program. One is one host, with a volume of its own for its user's home."""

from __future__ import annotations

import json
import os

from mngr.base.config import as_list
from mngr.base.errors import MngrError, NotFound, UsageError, suggest_closest
from mngr.base.paths import find_project_root
from mngr.host import registry, scripts, store
from mngr.host.remote_host import RemoteHost
from mngr.providers.docker import docker_cli, images, leftovers, snapshots
from mngr.providers.docker.docker_cli import DockerCli, DockerWire
from mngr.providers.shared import host_probe
from mngr.providers.shared.host_options import get_author, get_original_options, reject_options
from mngr.providers.shared.interrupted_hosts import finish_interrupted, host_lock

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
_IMAGE_OPTIONS = ("image", "dockerfile", "snapshot")
ENGINE_OPTIONS = ("kind", "program", "context", "host", "cost_per_hour")
USERS = {"agent": ("1000:1000", "/home/agent"), "root": ("0:0", "/root")}
MAX_PIDS = "4096"
START_TIMEOUT = 120.0  # seconds that an engine may take to start a container
HALT_FILE = "/tmp/.mngr-halt"
_IMAGE_HINT = "use an image that has sh, git, tmux and tar, for example by a Dockerfile that adds them"
# The container's first process: ends when asked to, or when the watcher leaves word that all is idle.
_IDLE_SCRIPT = 'trap "exit 0" TERM; rm -f "$0"; while [ ! -e "$0" ]; do sleep 5 & wait $!; done'


class DockerProvider:
    """Makes a container for each host. What it knows of them is in the registry; their labels say whose they are."""

    can_create_hosts = True
    can_snapshot_hosts = True
    can_stop_hosts = True
    project_options = (
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
        return registry.list_hosts(self._home, self.name)

    def open(self, host: str) -> Host:
        facts = self._get_facts(host)
        return RemoteHost(host, self.name, self._open_wire(host, facts), str(facts["home"]), int(facts["uid"]))

    def create(self, host: str | None, options: dict[str, Any]) -> Host:
        if host is None:
            name = f"mngr-{os.urandom(4).hex()}"
            self._create_container(name, options, auto=True)
            return self.open(name)
        with host_lock(self._home, self.name, host):
            finish_interrupted(self._home, self.name, host, self._remove_container)
            if registry.find_facts(self._home, self.name, host) is not None:
                reject_options(host, options)
                self.start(host)
            elif not self._use_existing(host, options):
                before = registry.find_facts(self._home, self.name, host, "gone") or {}
                self._create_container(
                    host, options or get_original_options(self._home, before), auto=before.get("auto") is True
                )
        return self.open(host)

    def start(self, host: str) -> None:
        facts = self._get_facts(host)
        engine = DockerCli(facts["engine"])
        result = engine.run("start", facts["container"], timeout=START_TIMEOUT)
        if docker_cli.is_container_gone(result) and facts.get("argv"):
            self._recreate_container(engine, host, facts)
        elif result.code:
            raise _build_error(f"{host} could not be started", result.err)

    def stop(self, host: str) -> None:
        facts = self._get_facts(host)
        DockerCli(facts["engine"]).run_checked(f"{host} could not be stopped", "stop", "-t", "5", facts["container"])

    def destroy(self, host: str) -> None:
        with host_lock(self._home, self.name, host):
            facts = self._get_facts(host)
            if not facts.get("guest"):
                registry.save_facts(
                    self._home, self.name, host, {**facts, "owner": store.describe_this_process()}, "ending"
                )
                self._remove_container(host, facts)
            else:
                registry.forget_host(self._home, self.name, host)

    def save_snapshot(self, host: str, place: str) -> dict[str, Any]:
        facts = self._get_facts(host)
        tag = self._build_tag(place)
        return snapshots.take_snapshot(DockerCli(facts["engine"]), facts["container"], self.open(host), place, tag)

    def find_partial_snapshot(self, host: str, place: str) -> dict[str, Any]:
        return {"image": self._build_tag(place), "engine": self._get_facts(host)["engine"]}

    def _build_tag(self, place: str) -> str:
        """The name of an image, by that of the snapshot."""
        return f"mngr-snapshot:{registry.compute_owner_key(self._home)}-{os.path.basename(place).partition('.')[0]}"

    def delete_snapshot(self, facts: dict[str, Any]) -> None:
        result = DockerCli(facts["engine"]).run("rmi", str(facts["image"]))
        if result.code and not docker_cli.is_image_missing(result):
            raise _build_error("the image of the snapshot could not be removed", result.err)

    def list_leftovers(self) -> builtins.list[Leftover]:
        engine = docker_cli.choose_cli(self._options)
        return leftovers.list_leftovers(
            self._home, self.name, engine, registry.compute_owner_key(self._home), self._remove_container
        )

    def _get_facts(self, host: str) -> dict[str, Any]:
        facts = registry.find_facts(self._home, self.name, host)
        if facts is None:
            known = self.list()
            hint = suggest_closest(host, known) or f"make it with its first agent: mngr create NAME@{host}.{self.name}"
            raise NotFound(f"{self.name} has no host {host!r}", hint)
        return facts

    def _open_wire(self, host: str, facts: dict[str, Any]) -> DockerWire:
        place = (self.name, host, str(facts["container"]))
        return DockerWire(DockerCli(facts["engine"]), *place, *USERS[facts["user"]])

    def _merge_options(self, options: dict[str, Any]) -> dict[str, Any]:
        """The settings with what was asked for this host in their place; UsageError when it makes no sense."""
        for key in self._options:
            if key not in (*OPTIONS, *ENGINE_OPTIONS) and not key.startswith("arg."):
                hint = suggest_closest(key, [*OPTIONS, *ENGINE_OPTIONS]) or "known: " + ", ".join(
                    (*OPTIONS, *ENGINE_OPTIONS)
                )
                raise UsageError(f"[providers.{self.name}] has no setting {key!r}", hint)
        for key in options:
            if key not in OPTIONS and not key.startswith("arg."):
                hint = suggest_closest(key, list(OPTIONS)) or f"known: {', '.join(OPTIONS)}, arg.NAME"
                raise UsageError(f"-b: {self.name} has no option {key!r}", hint)
        kept = self._options
        if any(options.get(key) for key in _IMAGE_OPTIONS):  # the one replaces the other
            kept = {k: v for k, v in kept.items() if k not in _IMAGE_OPTIONS and k[:4] != "arg."}
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

    def _create_container(self, name: str, options: dict[str, Any], *, auto: bool) -> None:
        """A new container. Its note is written first: what is interrupted is known, and `gc` takes it away."""
        if options.get("dockerfile"):
            options = {
                **options,
                "dockerfile": os.path.abspath(os.path.expanduser(str(options["dockerfile"]))),
            }
        wish = self._merge_options(options)
        engine = docker_cli.choose_cli(self._options)
        image, kept = images.choose_image(wish, find_project_root(os.getcwd()) or os.getcwd(), self._home)
        user = str(wish.get("user") or "agent")
        volume = f"mngr-{os.urandom(6).hex()}"
        network = "off" if wish.get("network") == "off" else "on"
        about = {
            "home": registry.compute_owner_key(self._home),
            "user": user,
            "volume": volume,
            "network": network,
        }
        labels = [word for key, value in about.items() for word in ("--label", f"mngr.{key}={value}")]
        argv = _build_run_argv(name, volume, user, labels, image.name, wish)
        facts: dict[str, Any] = {
            "engine": engine.words, "volume": volume, "user": user, "network": network, "image": image.name,
            "argv": argv, "options": options, "auto": auto,
        }  # fmt: skip
        registry.save_facts(self._home, self.name, name, {**facts, "owner": store.describe_this_process()}, "making")
        try:
            engine.run_checked("the volume could not be made", "volume", "create", *labels, volume)
        except MngrError:
            registry.forget_host(self._home, self.name, name)
            raise
        try:
            facts["container"] = self._run_container(engine, name, argv, image, user)
            found = self._prepare_home(engine, name, facts)
            if kept is not None:
                host = RemoteHost(name, self.name, self._open_wire(name, facts), found["home"], int(found["uid"]))
                snapshots.restore_home(host, kept)
        except BaseException as error:
            try:
                self._remove_container(name, facts)
            except MngrError:
                pass  # it stays noted, for `gc`
            if isinstance(error, host_probe.HostUnfit):
                what = error.message.removeprefix(f"{name} has ")
                raise MngrError(f"{image.origin} has {what}", _IMAGE_HINT) from None
            raise
        registry.save_facts(self._home, self.name, name, {**found, **facts, "maker": store.describe_this_process()})
        registry.delete_phases(self._home, self.name, name, "making", "gone")

    def _run_container(
        self, engine: DockerCli, name: str, argv: builtins.list[str], image: Image | None, user: str
    ) -> str:
        """Start the container, get its image first if it is not here, and give it its user; what the engine calls it."""
        result = engine.run(*argv, timeout=START_TIMEOUT)
        if docker_cli.is_image_missing(result) and image is not None:
            images.ensure_image(engine, image, self._note)
            result = engine.run(*argv, timeout=START_TIMEOUT)
        if result.code:
            raise _build_error(f"the container {name} could not be started", result.err)
        container = result.text.split("\n")[-1].strip()
        number, home = USERS[user]
        argv = [
            "sh",
            "-c",
            scripts.read_program("user.sh"),
            "user.sh",
            user,
            number.partition(":")[0],
            home,
            HALT_FILE,
            *get_author(),
        ]
        done = engine.run("exec", "-u", "0:0", container, *argv)
        if docker_cli.is_container_stopped(done):
            said = docker_cli.parse_error(engine.run("logs", "--tail", "5", container).err)
            raise MngrError(f"the container ended at once: {said}", _IMAGE_HINT)
        if done.code:
            raise _build_error(f"the user {user} could not be made in {name}", done.err)
        return container

    def _recreate_container(self, engine: DockerCli, host: str, facts: dict[str, Any]) -> None:
        """The container was taken away by somebody; its volume holds everything that agents have."""
        if engine.run("volume", "inspect", facts["volume"]).code:
            raise NotFound(
                f"the container {host} is gone, and so is its volume {facts['volume']}",
                f"forget it: mngr destroy @{host}.{self.name}",
            )
        self._note(f"the container {host} was gone and is made anew from its volume")
        container = self._run_container(engine, host, facts["argv"], None, facts["user"])
        registry.save_facts(self._home, self.name, host, {**facts, "container": container})

    def _use_existing(self, name: str, options: dict[str, Any]) -> bool:
        """Use a container of that name that is there already; False when there is none."""
        engine = docker_cli.choose_cli(self._options)
        result = engine.run("container", "inspect", "--format", "{{.Id}} {{json .Config.Labels}}", name)
        if docker_cli.is_container_gone(result):
            return False
        if result.code:
            raise _build_error(f"{name} could not be looked at", result.err)
        container, _, text = result.text.partition(" ")
        labels: dict[str, str] = json.loads(text) or {}
        if labels.get("mngr.user") not in USERS or "mngr.home" not in labels:
            raise MngrError(f"there is a container {name!r} that mngr did not make", "choose another name for the host")
        reject_options(name, options)
        facts = {
            "engine": engine.words, "container": container, "volume": labels.get("mngr.volume"), "user": labels["mngr.user"],
            "network": labels.get("mngr.network", "on"), "guest": labels["mngr.home"] != registry.compute_owner_key(self._home),
        }  # fmt: skip
        started = engine.run("start", container, timeout=START_TIMEOUT)
        if started.code:
            raise _build_error(f"{name} could not be started", started.err)
        found = self._prepare_home(engine, name, facts)
        registry.save_facts(self._home, self.name, name, {**found, **facts})
        return True

    def _prepare_home(self, engine: DockerCli, name: str, facts: dict[str, Any]) -> dict[str, Any]:
        """What is known of a host with a home for agents; they find what the image sets, too."""
        words = ("container", "inspect", "--format", "{{json .Config.Env}}", facts["container"])
        said = engine.run_checked(f"{name} could not be looked at", *words)
        image = dict(word.split("=", 1) for word in json.loads(said or "[]") or [] if "=" in word)
        found = host_probe.prepare_host(self._open_wire(name, facts), name)
        return {**found, "env": {**image, **found["env"]}}

    def _remove_container(self, name: str, facts: dict[str, Any]) -> None:
        """Take container and volume away; that they are not there is no trouble. What it was like stays known."""
        engine = DockerCli(facts["engine"])
        # Not by its name, which somebody else's may have by now.
        mine = ("ps", "-a", "-q", "--no-trunc", "--filter", f"label=mngr.volume={facts['volume']}")
        for container in engine.run_checked(f"{name} could not be looked for", *mine).split():
            gone = engine.run("rm", "-f", "-v", container, timeout=START_TIMEOUT)
            if gone.code and not docker_cli.is_container_gone(gone):
                raise _build_error(f"the container {name} could not be removed", gone.err)
        result = engine.run("volume", "rm", "-f", facts["volume"])
        if result.code and b"no such volume" not in result.err:
            raise _build_error(f"the volume {facts['volume']} could not be removed", result.err)
        if registry.find_facts(self._home, self.name, name) is not None:  # else it never came to be
            kept = {key: facts.get(key) for key in ("options", "auto")}
            registry.save_facts(self._home, self.name, name, kept, "gone")
        registry.forget_host(self._home, self.name, name)


def _build_run_argv(
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
    argv += ["--pids-limit", str(wish.get("pids") or MAX_PIDS)]
    for key in ("memory", "cpus"):
        if wish.get(key):
            argv += [f"--{key}", str(wish[key])]
    if wish.get("network") not in (None, "on"):
        argv += ["--network", "none" if wish["network"] == "off" else str(wish["network"])]
    for place in filter(None, as_list(wish.get("volumes"))):
        argv += ["-v", str(place)]
    argv += [str(word) for word in as_list(wish.get("run_args")) if word]
    return [*argv, "--entrypoint", "sh", image, "-c", _IDLE_SCRIPT, HALT_FILE]


def _build_error(what: str, err: bytes) -> MngrError:
    said = docker_cli.parse_error(err)
    return MngrError(f"{what}: {said}", docker_cli.get_hint(said))
