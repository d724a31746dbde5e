"""Containers as hosts, run by `docker` or `podman`. Each has its own volume for the home of its user."""

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

# Options of -b for one host, which are also settings for all hosts. ENGINE_OPTIONS are settings only.
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
START_TIMEOUT = 120.0  # seconds; for starting a container
HALT_FILE = "/tmp/.mngr-halt"
_IMAGE_HINT = "use an image that has sh, git, tmux and tar, for example by a Dockerfile that adds them"
# The container's first process. It ends on SIGTERM, or when the watcher creates HALT_FILE because all is idle.
_IDLE_SCRIPT = 'trap "exit 0" TERM; rm -f "$0"; while [ ! -e "$0" ]; do sleep 5 & wait $!; done'


class DockerProvider:
    """Creates a container for each host. The registry holds its facts, and its labels name its owner."""

    can_create_hosts = True
    can_snapshot_hosts = True
    can_stop_hosts = True
    # Options that give an agent no additional access.
    project_options = (
        "image",
        "dockerfile",
        "arg",
        "memory",
        "cpus",
        "pids",
    )

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
                old_facts = registry.find_facts(self._home, self.name, host, "gone") or {}
                self._create_container(
                    host, options or get_original_options(self._home, old_facts), auto=old_facts.get("auto") is True
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

    def save_snapshot(self, host: str, directory: str) -> dict[str, Any]:
        facts = self._get_facts(host)
        tag = self._build_snapshot_tag(directory)
        return snapshots.take_snapshot(DockerCli(facts["engine"]), facts["container"], self.open(host), directory, tag)

    def find_partial_snapshot(self, host: str, directory: str) -> dict[str, Any]:
        return {"image": self._build_snapshot_tag(directory), "engine": self._get_facts(host)["engine"]}

    def _build_snapshot_tag(self, directory: str) -> str:
        """Return the name of a snapshot's image."""
        return f"mngr-snapshot:{registry.compute_owner_key(self._home)}-{os.path.basename(directory).partition('.')[0]}"

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
        address = (self.name, host, str(facts["container"]))
        return DockerWire(DockerCli(facts["engine"]), *address, *USERS[facts["user"]])

    def _merge_options(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the settings, overridden by the options of this host. Raise UsageError if they are invalid."""
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
        settings = self._options
        if any(options.get(key) for key in _IMAGE_OPTIONS):  # An image option replaces all of them.
            settings = {
                key: value for key, value in settings.items() if key not in _IMAGE_OPTIONS and key[:4] != "arg."
            }
        merged = {**settings, **options}
        if options.get("network") == "on" and settings.get("network") != "off":
            merged["network"] = settings.get("network")
        if merged.get("user", "agent") not in USERS:
            raise UsageError(f"user cannot be {merged['user']!r}", "agent, who is made for it, or root")
        if str(merged.get("network") or "").startswith("allow="):
            raise UsageError(
                f"--network allow=… is not for {self.name} hosts",
                "they have --network on or off; on this machine, --sandbox --network allow=… works",
            )
        return merged

    def _create_container(self, name: str, options: dict[str, Any], *, auto: bool) -> None:
        """Create a container. Its facts are saved first, so that `gc` can remove it after an interruption."""
        if options.get("dockerfile"):
            options = {
                **options,
                "dockerfile": os.path.abspath(os.path.expanduser(str(options["dockerfile"]))),
            }
        merged = self._merge_options(options)
        engine = docker_cli.choose_cli(self._options)
        image, snapshot_tar = images.choose_image(merged, find_project_root(os.getcwd()) or os.getcwd(), self._home)
        user = str(merged.get("user") or "agent")
        volume = f"mngr-{os.urandom(6).hex()}"
        network = "off" if merged.get("network") == "off" else "on"
        label_values = {
            "home": registry.compute_owner_key(self._home),
            "user": user,
            "volume": volume,
            "network": network,
        }
        labels = [word for key, value in label_values.items() for word in ("--label", f"mngr.{key}={value}")]
        argv = _build_run_argv(name, volume, user, labels, image.name, merged)
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
            host_facts = self._prepare_home(engine, name, facts)
            if snapshot_tar is not None:
                host = RemoteHost(
                    name, self.name, self._open_wire(name, facts), host_facts["home"], int(host_facts["uid"])
                )
                snapshots.restore_home(host, snapshot_tar)
        except BaseException as error:
            try:
                self._remove_container(name, facts)
            except MngrError:
                pass  # The saved facts let `gc` remove it later.
            if isinstance(error, host_probe.HostUnfit):
                missing = error.message.removeprefix(f"{name} has ")
                raise MngrError(f"{image.origin} has {missing}", _IMAGE_HINT) from None
            raise
        registry.save_facts(
            self._home, self.name, name, {**host_facts, **facts, "maker": store.describe_this_process()}
        )
        registry.delete_phases(self._home, self.name, name, "making", "gone")

    def _run_container(
        self, engine: DockerCli, name: str, argv: builtins.list[str], image: Image | None, user: str
    ) -> str:
        """Start a container, create its user and return its id. Build or pull the image if it is missing."""
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
        user_result = engine.run("exec", "-u", "0:0", container, *argv)
        if docker_cli.is_container_stopped(user_result):
            log = docker_cli.parse_error(engine.run("logs", "--tail", "5", container).err)
            raise MngrError(f"the container ended at once: {log}", _IMAGE_HINT)
        if user_result.code:
            raise _build_error(f"the user {user} could not be made in {name}", user_result.err)
        return container

    def _recreate_container(self, engine: DockerCli, host: str, facts: dict[str, Any]) -> None:
        """Create a deleted container again from its volume, which holds all files of the agents."""
        if engine.run("volume", "inspect", facts["volume"]).code:
            raise NotFound(
                f"the container {host} is gone, and so is its volume {facts['volume']}",
                f"forget it: mngr destroy @{host}.{self.name}",
            )
        self._note(f"the container {host} was gone and is made anew from its volume")
        container = self._run_container(engine, host, facts["argv"], None, facts["user"])
        registry.save_facts(self._home, self.name, host, {**facts, "container": container})

    def _use_existing(self, name: str, options: dict[str, Any]) -> bool:
        """Use an existing container of this name. Return False when there is none."""
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
        host_facts = self._prepare_home(engine, name, facts)
        registry.save_facts(self._home, self.name, name, {**host_facts, **facts})
        return True

    def _prepare_home(self, engine: DockerCli, name: str, facts: dict[str, Any]) -> dict[str, Any]:
        """Create the home for agents and return the facts, whose environment includes the image's variables."""
        words = ("container", "inspect", "--format", "{{json .Config.Env}}", facts["container"])
        output = engine.run_checked(f"{name} could not be looked at", *words)
        image_env = dict(word.split("=", 1) for word in json.loads(output or "[]") or [] if "=" in word)
        host_facts = host_probe.prepare_host(self._open_wire(name, facts), name)
        return {**host_facts, "env": {**image_env, **host_facts["env"]}}

    def _remove_container(self, name: str, facts: dict[str, Any]) -> None:
        """Remove the container and its volume, if they exist. Keep its options to create it again."""
        engine = DockerCli(facts["engine"])
        # Another container may have its name by now, so the label identifies it.
        query = ("ps", "-a", "-q", "--no-trunc", "--filter", f"label=mngr.volume={facts['volume']}")
        for container in engine.run_checked(f"{name} could not be looked for", *query).split():
            removed = engine.run("rm", "-f", "-v", container, timeout=START_TIMEOUT)
            if removed.code and not docker_cli.is_container_gone(removed):
                raise _build_error(f"the container {name} could not be removed", removed.err)
        result = engine.run("volume", "rm", "-f", facts["volume"])
        if result.code and b"no such volume" not in result.err:
            raise _build_error(f"the volume {facts['volume']} could not be removed", result.err)
        if registry.find_facts(self._home, self.name, name) is not None:  # else the host was never complete
            remembered = {key: facts.get(key) for key in ("options", "auto")}
            registry.save_facts(self._home, self.name, name, remembered, "gone")
        registry.forget_host(self._home, self.name, name)


def _build_run_argv(
    name: str, volume: str, user: str, labels: list[str], image: str, options: dict[str, Any]
) -> list[str]:
    """Return the arguments of `docker run`, with as few privileges as an agent needs."""
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
        argv += ["--cap-drop", "ALL", "--cap-add", "CHOWN"]  # user.sh must give the new user the home
    argv += ["--pids-limit", str(options.get("pids") or MAX_PIDS)]
    for key in ("memory", "cpus"):
        if options.get(key):
            argv += [f"--{key}", str(options[key])]
    if options.get("network") not in (None, "on"):
        argv += ["--network", "none" if options["network"] == "off" else str(options["network"])]
    for mount in filter(None, as_list(options.get("volumes"))):
        argv += ["-v", str(mount)]
    argv += [str(word) for word in as_list(options.get("run_args")) if word]
    return [*argv, "--entrypoint", "sh", image, "-c", _IDLE_SCRIPT, HALT_FILE]


def _build_error(problem: str, err: bytes) -> MngrError:
    """Return an error with the engine's message and a hint."""
    reason = docker_cli.parse_error(err)
    return MngrError(f"{problem}: {reason}", docker_cli.get_hint(reason))
