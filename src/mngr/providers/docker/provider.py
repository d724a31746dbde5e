"""Containers as hosts, run by `docker` or `podman`. Each has its own volume for the home of its user."""

from __future__ import annotations

import json
import os

from mngr.base import untrusted_json
from mngr.base.config import as_list
from mngr.base.errors import MngrError, NotFound, UsageError, suggest_closest
from mngr.base.paths import find_project_root
from mngr.base.untrusted_json import as_object, get_text
from mngr.host import host_store, record_store, scripts
from mngr.host.host_store import HostFacts
from mngr.host.remote_host import RemoteHost
from mngr.providers.docker import docker_cli, images, leftovers, snapshots
from mngr.providers.docker.container_record import ContainerFacts, read_container
from mngr.providers.docker.docker_cli import DockerCli, DockerTransport
from mngr.providers.shared import host_preparation
from mngr.providers.shared.host_options import (
    get_author,
    get_original_options,
    make_option_error,
    reject_options,
)
from mngr.providers.shared.interrupted_hosts import finish_interrupted, host_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable

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
_IMAGE_HINT = "use an image that has sh, git, tmux and tar, or a Dockerfile that adds them: -b dockerfile=PATH"
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
        self, name: str, home: Home, options: dict[str, object], note: Callable[[str], None] = lambda text: None
    ) -> None:
        self.name = name
        self._home = home
        self._options = options
        self._note = note

    def list(self) -> list[str]:
        return host_store.list_hosts(self._home, self.name)

    def open(self, host: str) -> Host:
        facts = self._get_facts(host)
        transport = self._open_transport(host, read_container(facts))
        return RemoteHost(host, self.name, transport, facts.home, facts.uid)

    def create(self, host: str | None, options: dict[str, object]) -> Host:
        if host is None:
            name = f"mngr-{os.urandom(4).hex()}"
            self._create_container(name, options, auto=True)
            return self.open(name)
        with host_lock(self._home, self.name, host):
            finish_interrupted(self._home, self.name, host, self._remove_container)
            if host_store.find_facts(self._home, self.name, host) is not None:
                reject_options(host, options)
                self.start(host)
            elif not self._use_existing(host, options):
                old_facts = host_store.find_facts(self._home, self.name, host, "gone") or HostFacts()
                host_options = options or get_original_options(self._home, old_facts)
                self._create_container(host, host_options, auto=old_facts.auto)
        return self.open(host)

    def start(self, host: str) -> None:
        facts = self._get_facts(host)
        container = read_container(facts)
        engine = DockerCli(container.engine)
        result = engine.run("start", container.container, timeout=START_TIMEOUT)
        if docker_cli.is_container_gone(result) and container.argv:
            self._recreate_container(engine, host, facts)
        elif result.code:
            raise engine.build_error(f"{host} could not be started", result.err)

    def stop(self, host: str) -> None:
        container = self._get_container(host)
        DockerCli(container.engine).run_checked(f"{host} could not be stopped", "stop", "-t", "5", container.container)

    def destroy(self, host: str) -> None:
        with host_lock(self._home, self.name, host):
            facts = self._get_facts(host)
            if facts.guest:
                host_store.forget_host(self._home, self.name, host)
                return
            note = facts.replace(owner=record_store.describe_this_process())
            host_store.save_facts(self._home, self.name, host, note, "ending")
            self._remove_container(host, facts)

    def save_snapshot(self, host: str, directory: str) -> dict[str, object]:
        container = self._get_container(host)
        engine = DockerCli(container.engine)
        tag = self._build_snapshot_tag(directory)
        return snapshots.take_snapshot(engine, container.container, self.open(host), directory, tag)

    def find_partial_snapshot(self, host: str, directory: str) -> dict[str, object]:
        return {"image": self._build_snapshot_tag(directory), "engine": self._get_container(host).engine}

    def _build_snapshot_tag(self, directory: str) -> str:
        """Return the name of a snapshot's image."""
        return (
            f"mngr-snapshot:{host_store.compute_owner_key(self._home)}-{os.path.basename(directory).partition('.')[0]}"
        )

    def delete_snapshot(self, facts: dict[str, object]) -> None:
        engine = DockerCli([str(word) for word in untrusted_json.as_list(facts.get("engine"))])
        result = engine.run("rmi", get_text(facts, "image"))
        if result.code and not docker_cli.is_image_missing(result):
            raise engine.build_error("the image of the snapshot could not be removed", result.err)

    def list_leftovers(self) -> builtins.list[Leftover]:
        engine = docker_cli.choose_cli(self._options)
        return leftovers.list_leftovers(
            self._home, self.name, engine, host_store.compute_owner_key(self._home), self._remove_container
        )

    def _get_facts(self, host: str) -> HostFacts:
        facts = host_store.find_facts(self._home, self.name, host)
        if facts is None:
            known = self.list()
            hint = (
                suggest_closest(host, known) or f"create it together with an agent: mngr create NAME@{host}.{self.name}"
            )
            raise NotFound(f"{self.name} has no host {host!r}", hint)
        return facts

    def _get_container(self, host: str) -> ContainerFacts:
        return read_container(self._get_facts(host))

    def _open_transport(self, host: str, container: ContainerFacts) -> DockerTransport:
        user, home = USERS[container.user]
        return DockerTransport(DockerCli(container.engine), self.name, host, container.container, user, home)

    def _merge_options(self, options: dict[str, object]) -> dict[str, object]:
        """Return the settings, overridden by the options of this host. Raise UsageError if they are invalid."""
        for key in self._options:
            if key not in (*OPTIONS, *ENGINE_OPTIONS) and not key.startswith("arg."):
                hint = suggest_closest(key, [*OPTIONS, *ENGINE_OPTIONS]) or "use one of: " + ", ".join(
                    (*OPTIONS, *ENGINE_OPTIONS)
                )
                raise UsageError(f"[providers.{self.name}] has no setting {key!r}", hint)
        for key in options:
            if key not in OPTIONS and not key.startswith("arg."):
                hint = suggest_closest(key, list(OPTIONS)) or f"use one of: {', '.join(OPTIONS)}, arg.NAME"
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
            expected = "agent (mngr creates this user) or root"
            raise make_option_error(self.name, "user", merged["user"], expected, "agent")
        if str(merged.get("network") or "").startswith("allow="):
            raise UsageError(
                f"--network allow=… does not work on {self.name} hosts",
                "use --network on or --network off; on this machine, --sandbox --network allow=… works",
            )
        return merged

    def _create_container(self, name: str, options: dict[str, object], *, auto: bool) -> None:
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
            "home": host_store.compute_owner_key(self._home),
            "user": user,
            "volume": volume,
            "network": network,
        }
        labels = [word for key, value in label_values.items() for word in ("--label", f"mngr.{key}={value}")]
        argv = _build_run_argv(name, volume, user, labels, image.name, merged)
        this_process = record_store.describe_this_process()
        container = ContainerFacts(engine=engine.words, volume=volume, user=user, image=image.name, argv=argv)
        plan = HostFacts(options=options, auto=auto, network=network, own=container.to_dict())
        host_store.save_facts(self._home, self.name, name, plan.replace(owner=this_process), "making")
        try:
            engine.run_checked("the volume could not be created", "volume", "create", *labels, volume)
        except MngrError:
            host_store.forget_host(self._home, self.name, name)
            raise
        try:
            container = container.replace(container=self._run_container(engine, name, argv, image, user))
            prepared = self._prepare_home(engine, name, container)
            if snapshot_tar is not None:
                transport = self._open_transport(name, container)
                snapshots.restore_home(
                    RemoteHost(name, self.name, transport, prepared.home, prepared.uid), snapshot_tar
                )
        except BaseException as error:
            try:
                self._remove_container(name, plan)
            except MngrError:
                pass  # The saved facts let `gc` remove it later.
            if isinstance(error, host_preparation.HostUnfit):
                missing = error.message.removeprefix(f"{name} has ")
                raise MngrError(f"{image.origin} has {missing}", _IMAGE_HINT) from None
            raise
        facts = prepared.replace(
            options=options, auto=auto, network=network, maker=this_process, own=container.to_dict()
        )
        host_store.save_facts(self._home, self.name, name, facts)
        host_store.delete_phases(self._home, self.name, name, "making", "gone")

    def _run_container(
        self, engine: DockerCli, name: str, argv: builtins.list[str], image: Image | None, user: str
    ) -> str:
        """Start a container, create its user and return its id. Build or pull the image if it is missing."""
        result = engine.run(*argv, timeout=START_TIMEOUT)
        if docker_cli.is_image_missing(result) and image is not None:
            images.ensure_image(engine, image, self._note)
            result = engine.run(*argv, timeout=START_TIMEOUT)
        if result.code:
            raise engine.build_error(f"the container {name} could not be started", result.err)
        container = result.text.split("\n")[-1].strip()
        number, home = USERS[user]
        argv = [
            "sh",
            "-c",
            scripts.read_program("create_user.sh"),
            "create_user.sh",
            user,
            number.partition(":")[0],
            home,
            HALT_FILE,
            *get_author(),
        ]
        user_result = engine.run("exec", "-u", "0:0", container, *argv)
        if docker_cli.is_container_stopped(user_result):
            log = docker_cli.parse_error(engine.run("logs", "--tail", "5", container).err)
            raise MngrError(f"the container ended immediately: {log}", _IMAGE_HINT)
        if user_result.code:
            raise engine.build_error(f"the user {user} could not be created in {name}", user_result.err)
        return container

    def _recreate_container(self, engine: DockerCli, host: str, facts: HostFacts) -> None:
        """Create a deleted container again from its volume, which holds all files of the agents."""
        old = read_container(facts)
        if engine.run("volume", "inspect", old.volume).code:
            raise NotFound(
                f"the container {host} is gone, and so is its volume {old.volume}",
                f"remove the host from the list: mngr destroy @{host}.{self.name}",
            )
        self._note(f"the container {host} was gone; mngr creates it again from its volume")
        new = old.replace(container=self._run_container(engine, host, old.argv, None, old.user))
        host_store.save_facts(self._home, self.name, host, facts.replace(own=new.to_dict()))

    def _use_existing(self, name: str, options: dict[str, object]) -> bool:
        """Use an existing container of this name. Return False when there is none."""
        engine = docker_cli.choose_cli(self._options)
        result = engine.run("container", "inspect", "--format", "{{.Id}} {{json .Config.Labels}}", name)
        if docker_cli.is_container_gone(result):
            return False
        if result.code:
            raise engine.build_error(f"{name} could not be inspected", result.err)
        container_id, _, text = result.text.partition(" ")
        labels = as_object(json.loads(text))
        user, owner_key = get_text(labels, "mngr.user"), get_text(labels, "mngr.home")
        if user not in USERS or not owner_key:
            raise MngrError(
                f"there is already a container {name!r} that mngr did not create",
                f"choose another name for the host: mngr create NAME@HOST.{self.name}",
            )
        reject_options(name, options)
        volume = get_text(labels, "mngr.volume")
        container = ContainerFacts(engine=engine.words, container=container_id, volume=volume, user=user)
        started = engine.run("start", container_id, timeout=START_TIMEOUT)
        if started.code:
            raise engine.build_error(f"{name} could not be started", started.err)
        facts = self._prepare_home(engine, name, container).replace(
            network=get_text(labels, "mngr.network", "on"),
            guest=owner_key != host_store.compute_owner_key(self._home),
            own=container.to_dict(),
        )
        host_store.save_facts(self._home, self.name, name, facts)
        return True

    def _prepare_home(self, engine: DockerCli, name: str, container: ContainerFacts) -> HostFacts:
        """Create the home for agents and return the facts, whose environment includes the image's variables."""
        words = ("container", "inspect", "--format", "{{json .Config.Env}}", container.container)
        output = engine.run_checked(f"{name} could not be inspected", *words)
        image_env = dict(
            str(word).split("=", 1) for word in untrusted_json.as_list(json.loads(output or "[]")) if "=" in str(word)
        )
        prepared = host_preparation.prepare_host(self._open_transport(name, container), name)
        return prepared.replace(env={**image_env, **prepared.env})

    def _remove_container(self, name: str, facts: HostFacts) -> None:
        """Remove the container and its volume, if they exist. Keep its options to create it again."""
        volume = read_container(facts).volume
        engine = DockerCli(read_container(facts).engine)
        # Another container may have its name by now, so the label identifies it.
        query = ("ps", "-a", "-q", "--no-trunc", "--filter", f"label=mngr.volume={volume}")
        for container_id in engine.run_checked(f"mngr could not search for {name}", *query).split():
            removed = engine.run("rm", "-f", "-v", container_id, timeout=START_TIMEOUT)
            if removed.code and not docker_cli.is_container_gone(removed):
                raise engine.build_error(f"the container {name} could not be removed", removed.err)
        result = engine.run("volume", "rm", "-f", volume)
        if result.code and b"no such volume" not in result.err:
            raise engine.build_error(f"the volume {volume} could not be removed", result.err)
        if host_store.find_facts(self._home, self.name, name) is not None:  # else the host was never complete
            remembered = HostFacts(options=facts.options, auto=facts.auto)
            host_store.save_facts(self._home, self.name, name, remembered, "gone")
        host_store.forget_host(self._home, self.name, name)


def _build_run_argv(
    name: str, volume: str, user: str, labels: list[str], image: str, options: dict[str, object]
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
        argv += ["--cap-drop", "ALL", "--cap-add", "CHOWN"]  # create_user.sh must give the new user the home
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
