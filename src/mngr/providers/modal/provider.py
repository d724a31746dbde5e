"""Modal sandboxes as hosts, reached only through Modal's exec. A stopped host is an image of its files."""

from __future__ import annotations

import json
import os
import time

from mngr.base import names_and_addresses, shell, time_format, untrusted_json
from mngr.base.config import as_list
from mngr.base.errors import HostGone, HostStopped, MngrError, UsageError
from mngr.base.paths import SNAPSHOT_EXCLUDES, find_project_root
from mngr.base.untrusted_json import as_object, find_text, get_int, get_object, get_objects, get_text
from mngr.host import host_store, scripts
from mngr.host.host_store import HostFacts
from mngr.providers.bridge.connection import IDLE_SECONDS, Bridge, BridgeTransport, EngineModule, StoppedTransport
from mngr.providers.shared.engine_protocol import EngineDefaults, FoundMachine, Machine
from mngr.providers.shared.host_options import get_author, make_option_error, parse_network, parse_number
from mngr.providers.shared.on_demand import OnDemandProvider

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable

    from mngr.base.errors import Unreachable
    from mngr.base.paths import Home
    from mngr.host.remote_host import Transport
    from mngr.providers.shared.engine_protocol import Engine
    from mngr.providers.shared.on_demand import Note

ERROR_HINTS = {
    "unreachable": "check your network connection and https://status.modal.com",
    "auth": "log in: modal token new; or set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET",
    "missing": "install it for that Python: pip install 'modal>=1.5,<1.7'; or choose another Python: mngr config set providers.modal.python PATH",
    "busy": "wait until hosts are stopped or destroyed, or create fewer hosts at a time",
}
_ENGINE = EngineModule(
    name="mngr.providers.modal.modal_calls",
    variables=("MODAL_", "HOME", "HTTPS_PROXY", "https_proxy"),
    hints=ERROR_HINTS,
)
MAX_SANDBOX_SECONDS = 86400.0  # the longest lifetime of a sandbox
IMAGE_OPTIONS = ("image", "dockerfile", "apt", "pip", "run")
HALT_FILE = "/tmp/.mngr-halt"
# The first process. It ends when the watcher creates HALT_FILE because all is idle.
_IDLE_SCRIPT = 'trap "exit 0" TERM; rm -f "$0"; while [ ! -e "$0" ]; do sleep 5 & wait $!; done'
# A snapshot contains all files. Agents have their own snapshots, and their files are private.
_CLEAR_AGENTS_SCRIPT = f"cd ~/.mngr 2>/dev/null || exit 0; rm -rf {' '.join(SNAPSHOT_EXCLUDES)}"


class ModalMachine(Machine):
    """A sandbox, or the image of its files while the host is stopped."""

    origin: dict[str, object] = {}  # the description from which the bridge builds or finds the image
    author: list[str] = []  # name and email for git
    words: dict[str, object] = {}  # Modal's options for the sandbox; empty when another home created it without tags
    tags: dict[str, str] = {}
    sandbox: str | None = None
    image: str | None = None


class ModalProvider(OnDemandProvider[ModalMachine]):
    """Provides the sandboxes of one Modal workspace as hosts."""

    project_options = (*IMAGE_OPTIONS, "cpus", "memory")

    def make_engine(self, name: str, home: Home, options: dict[str, object], note: Note) -> Engine[ModalMachine]:
        return ModalEngine(name, home, options, note)


class ModalEngine(EngineDefaults[ModalMachine]):
    """The engine for Modal. The code that uses Modal's library is in mngr.providers.modal.modal_calls."""

    options: tuple[str, ...] = (
        *IMAGE_OPTIONS,
        "cpus",
        "memory",
        "gpu",
        "region",
        "network",
        "timeout",
        "idle_timeout",
    )
    settings: tuple[str, ...] = ("app", "environment", "python", "linger")
    can_stop = True
    can_snapshot = True

    def __init__(self, provider: str, home: Home, options: dict[str, object], note: Note) -> None:
        self._provider = provider
        self._home = home
        self._note = note
        self._key = host_store.compute_owner_key(home)
        self._bridge = Bridge(
            provider,
            home,
            _ENGINE,
            {key: options.get(key) for key in ("app", "environment")},
            python=options.get("python"),
            linger=_parse_seconds(options, "linger") or IDLE_SECONDS,
        )

    def read_machine(self, row: dict[str, object]) -> ModalMachine:
        return ModalMachine.read(row)

    def plan_machine(self, name: str, options: dict[str, object]) -> ModalMachine:
        random_id = os.urandom(6).hex()
        tag = f"{self._key}-{random_id}"
        timeout = _parse_whole_seconds(options, "timeout") or int(MAX_SANDBOX_SECONDS)
        if timeout > MAX_SANDBOX_SECONDS:
            raise UsageError(
                "timeout cannot be more than 24h on Modal",
                f"use the longest time, -b timeout=24h; when the host has ended, start it again: mngr start @HOST.{self._provider}",
            )
        words: dict[str, object] = {
            "timeout": timeout,
            "idle_timeout": _parse_whole_seconds(options, "idle_timeout"),
            "region": options.get("region"),
            "gpu": options.get("gpu"),
            "cpu": parse_number("modal", "cpus", options["cpus"]) if options.get("cpus") else None,
            "memory": _parse_megabytes(options),
            **_parse_network(parse_network(options)),
        }
        return ModalMachine(
            tag=tag,
            origin=_build_image_spec(options),
            author=get_author(),
            clears=bool(options.get("snapshot")),
            words={key: value for key, value in words.items() if value is not None},
            tags={"mngr": self._key, "host": name, "tag": tag},
        )

    def create(self, name: str, machine: ModalMachine) -> ModalMachine:
        return self._create_sandbox(name, machine, machine.origin)

    def build_first_program(self, name: str, machine: ModalMachine) -> str:
        """Return a program that creates the user and git author, and deletes agents that came with a snapshot."""
        clearing = f"({_CLEAR_AGENTS_SCRIPT})\n" if machine.clears else ""
        words = shell.join(["root", "0", "/root", HALT_FILE, *machine.author])
        return f"{clearing}set -- {words}\n{scripts.read_program('create_user.sh')}"

    def _create_sandbox(self, name: str, machine: ModalMachine, origin: dict[str, object]) -> ModalMachine:
        """Create a sandbox and return the machine with it and with the time when it ends."""
        if not machine.words:  # The sandbox was created by another home.
            raise MngrError(
                f"mngr no longer knows the options of {name}, so it cannot start the host again",
                f"its files are in an image; create a new host from it: mngr create NAME@.modal -b image={origin.get('id')}",
            )
        tags = {**machine.tags, **_encode_tags(machine.words)}
        created = self._bridge.call(
            "create",
            note=self._note,
            host=name,
            origin=origin,
            name=name[:63],
            tags=tags,
            argv=["sh", "-c", _IDLE_SCRIPT, HALT_FILE],
            shape=machine.words,
        )
        ends_at = time_format.format_timestamp(time.time() + get_int(machine.words, "timeout"))
        return machine.replace(sandbox=get_text(created, "sandbox"), alike=find_text(created, "alike"), ends_at=ends_at)

    def find_existing(self, name: str) -> ModalMachine | None:
        answer = self._bridge.call("find_by_name", host=name, name=name[:63])
        if not answer:
            return None
        tags = _read_tags(answer)
        if not tags.get("mngr"):
            raise MngrError(
                f"there is already a sandbox {name!r} that mngr did not create",
                f"choose another name for the host: mngr create NAME@HOST.{self._provider}",
            )
        return ModalMachine(
            tag=tags.get("tag", ""),
            sandbox=get_text(answer, "sandbox"),
            tags=tags,
            words=_decode_tags(tags),
            whose=tags["mngr"],
        )

    def open_transport(self, name: str, machine: ModalMachine) -> Transport:
        if not machine.sandbox:
            return StoppedTransport(self._provider, name)
        words: dict[str, object] = {"sandbox": machine.sandbox}
        if idle := machine.words.get("idle_timeout"):
            words["stay"] = f"set -- {idle}\n{scripts.read_program_beside(__file__, 'keep_busy.sh')}"
        return ModalTransport(self._bridge, name, words, lambda: self._find_latest_image(name, machine) is not None)

    def start_or_reuse_machine(self, name: str, machine: ModalMachine) -> ModalMachine:
        image = machine.image
        if machine.sandbox:
            state = self._bridge.call("get_state", host=name, sandbox=machine.sandbox)
            if state["state"] == "running":
                return machine
            if machine.whose not in (None, self._key):  # Its owner may have started it again.
                return self.find_existing(name) or machine
            image = self._find_saved_image(name, machine, state)
        if not image:
            raise HostGone(self._provider, name, "its sandbox has ended, and its files were not saved")
        return self._create_sandbox(name, machine, {"id": image}).replace(image=image)

    def stop(self, name: str, machine: ModalMachine) -> ModalMachine:
        if not machine.sandbox:
            return machine
        state = self._bridge.call("get_state", host=name, sandbox=machine.sandbox)
        if state["state"] == "running":
            image: str | None = self._save_image(name, machine.sandbox)
        else:
            image = self._find_saved_image(name, machine, state)
        if image is None:
            raise HostGone(self._provider, name, "its sandbox has ended, and its files were not saved")
        self._end_sandboxes(name, machine, image)
        self._delete_old_images(name, image)
        return machine.replace(sandbox=None, image=image, ends_at=None)

    def remove(self, name: str, machine: ModalMachine) -> None:
        self._end_sandboxes(name, machine, None)
        if machine.image:
            self._bridge.call("delete_images", images=[machine.image])
        self._delete_old_images(name, None)

    def list_machines(self) -> builtins.list[FoundMachine]:
        removal = "python -c 'import modal; modal.Sandbox.from_id(\"{}\").terminate()'"
        return [
            FoundMachine(
                resource_kind="sandbox",
                name=get_text(row, "sandbox"),
                tag=_read_tags(row).get("tag", ""),
                removal_command=removal.format(get_text(row, "sandbox")),
            )
            for row in get_objects(self._bridge.call("list", tags={"mngr": self._key}), "sandboxes")
        ]

    def save_snapshot(self, name: str, machine: ModalMachine, directory: str) -> dict[str, object]:
        if not machine.sandbox:
            raise HostStopped(self._provider, name)

        def keep(answer: dict[str, object]) -> None:
            with open(_build_note_path(directory), "w", encoding="utf-8") as file:
                file.write(get_text(answer, "image"))

        return self._bridge.call("snapshot", host=name, sandbox=machine.sandbox, keep=keep)

    def find_partial_snapshot(self, directory: str) -> dict[str, object]:
        """Return the path of the note with the image of a snapshot."""
        return {"note": _build_note_path(directory)}

    def delete_snapshot(self, facts: dict[str, object]) -> None:
        image = get_text(facts, "image") if "image" in facts else _read_note(get_text(facts, "note"))
        if image:
            self._bridge.call("delete_images", images=[image])

    def _end_sandboxes(self, name: str, machine: ModalMachine, kept_image: str | None) -> None:
        """End all sandboxes of the host. Delete the images of ended ones, except for `kept_image`."""
        self._bridge.call(
            "terminate", host=name, name=name[:63], tag=machine.tag, sandbox=machine.sandbox, spare=kept_image
        )

    def _save_image(self, name: str, sandbox: str) -> str:
        """Save the files of a sandbox as an image and return its id. It is recorded at once, or it would be lost."""

        def keep(answer: dict[str, object]) -> None:
            self._record_image(name, get_text(answer, "image"))

        return get_text(self._bridge.call("snapshot", host=name, sandbox=sandbox, keep=keep), "image")

    def _find_saved_image(self, name: str, machine: ModalMachine, state: dict[str, object]) -> str | None:
        """Return the image of an ended sandbox: the one from its end, otherwise the latest one that is recorded."""
        image = find_text(state, "image")
        if state["state"] == "ended" and not image:
            raise MngrError(f"Modal is still saving the files of {name}", "run the command again in a minute")
        if image:
            self._record_image(name, image)
            return image
        last = self._find_latest_image(name, machine)
        if last:
            self._note(f"the sandbox of {name} is gone; mngr restores its files as they were last saved")
        return last

    def _find_latest_image(self, name: str, machine: ModalMachine) -> str | None:
        """Return the newest recorded image of a host's files, or None."""
        return [machine.image, *self._list_recorded_images(name)][-1]

    def _list_recorded_images(self, name: str) -> builtins.list[str]:
        """Return the recorded images of a host's files, the newest last."""
        facts = host_store.find_facts(self._home, self._provider, name, "images")
        images = facts.own.get("images") if facts is not None else None
        return [str(image) for image in untrusted_json.as_list(images)]

    def _save_recorded_images(self, name: str, images: builtins.list[str]) -> None:
        host_store.save_facts(self._home, self._provider, name, HostFacts(own={"images": images}), "images")

    def _record_image(self, name: str, image: str) -> None:
        """Record an image of a host's files in the registry."""
        others = [other for other in self._list_recorded_images(name) if other != image]
        self._save_recorded_images(name, [*others, image])

    def _delete_old_images(self, name: str, kept_image: str | None) -> None:
        """Delete all recorded images of a host, except for `kept_image`."""
        others = [image for image in self._list_recorded_images(name) if image != kept_image]
        if others:
            self._bridge.call("delete_images", images=others)
        if kept_image is None:
            host_store.delete_phases(self._home, self._provider, name, "images")
        else:
            self._save_recorded_images(name, [kept_image])


class ModalTransport(BridgeTransport):
    """The transport to a sandbox. If the sandbox is gone but an image exists, the host counts as stopped."""

    def __init__(self, bridge: Bridge, host: str, words: dict[str, object], has_image: Callable[[], bool]) -> None:
        super().__init__(bridge, host, words)
        self._is_kept = has_image

    def make_lost_error(self, stderr: str) -> Unreachable:
        error = super().make_lost_error(stderr)
        if isinstance(error, HostGone) and self._is_kept():
            return HostStopped(error.provider, error.host, "its sandbox is gone; its files are as they were last saved")
        return error


def _read_tags(row: dict[str, object]) -> dict[str, str]:
    """Return the tags in an answer of the bridge."""
    return {key: str(value) for key, value in get_object(row, "tags").items()}


def _encode_tags(words: dict[str, object]) -> dict[str, str]:
    """Return the options of a sandbox as tags, so that another home can start it again.

    A tag has at most 63 letters, digits, `-` and `_`. Long options, such as a list of allowed destinations, would
    need many tags, whose number may be limited. Then the result is empty.
    """
    import base64

    text = base64.urlsafe_b64encode(json.dumps(words, separators=(",", ":")).encode()).decode().rstrip("=")
    parts = [text[index : index + 63] for index in range(0, len(text), 63)]
    return {f"words-{index}": part for index, part in enumerate(parts)} if len(parts) < 6 else {}


def _decode_tags(tags: dict[str, str]) -> dict[str, object]:
    """Return the options that `_encode_tags` stored in the tags."""
    import base64

    text = "".join(tags[key] for key in sorted(tags) if key.startswith("words-"))
    return as_object(json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)) or "{}"))


def _build_image_spec(options: dict[str, object]) -> dict[str, object]:
    """Return the description from which the bridge builds or finds the image."""
    if options.get("snapshot"):
        return {"id": get_text(get_object(options, "snapshot"), "image")}
    spec: dict[str, object] = {
        key: [str(item) for item in as_list(options[key])] for key in ("apt", "pip", "run") if options.get(key)
    }
    image = str(options.get("image") or "")
    if image.startswith("im-"):
        return {"id": image}
    if options.get("dockerfile"):
        path = os.path.expanduser(str(options["dockerfile"]))
        spec["dockerfile"] = os.path.join(find_project_root(os.getcwd()) or os.getcwd(), path)
    elif image:
        spec["image"] = image
    return spec


def _build_note_path(directory: str) -> str:
    """Return the path of the note with the image of a snapshot."""
    return os.path.join(directory, "image")


def _read_note(path: str) -> str:
    """Return the contents of a note, or an empty text when there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def _parse_network(text: str) -> dict[str, object]:
    """Return Modal's options for the network setting."""
    import ipaddress

    if text == "off":
        return {"block_network": True}
    if text == "on":
        return {}
    allowlists: dict[str, builtins.list[str]] = {"outbound_cidr_allowlist": [], "outbound_domain_allowlist": []}
    for word in text.removeprefix("allow=").split(","):
        try:
            allowlists["outbound_cidr_allowlist"].append(str(ipaddress.ip_network(word.strip("[] "))))
            continue
        except ValueError:
            (destination, port), *_ = names_and_addresses.parse_network(f"allow={word}")[1]
        if _is_ip_address(destination):
            raise UsageError(
                f"--network allow: {word} does not work on Modal, where an address cannot have a port",
                f"leave out the port: --network allow={destination}",
            )
        if port not in (None, 443):
            raise UsageError(
                f"--network allow: {word} does not work on Modal, where a host name can have only port 443",
                "use port 443, or name an address or a range such as 203.0.113.0/24",
            )
        allowlists["outbound_domain_allowlist"].append(destination)
    return {key: value for key, value in allowlists.items() if value}


def _is_ip_address(text: str) -> bool:
    """True when the text is an IP address."""
    import ipaddress

    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _parse_seconds(options: dict[str, object], key: str) -> float | None:
    return time_format.parse_duration(str(options[key])) if options.get(key) else None


def _parse_whole_seconds(options: dict[str, object], key: str) -> int | None:
    """Return a duration in whole seconds, or None when it is not set or 0."""
    seconds = _parse_seconds(options, key)
    if seconds and seconds < 1:
        raise make_option_error("modal", key, options[key], "at least 1s", "10m")
    return int(seconds) if seconds else None


def _parse_megabytes(options: dict[str, object]) -> int | None:
    """Return the memory option in megabytes, or None when it is not set."""
    text = str(options.get("memory") or "").lower().removesuffix("b").removesuffix("i")
    if not text:
        return None
    unit = {"m": 1, "g": 1024, "t": 1 << 20}.get(text[-1], 1)
    expected = "a size such as 512m or 4g"
    megabytes = int(parse_number("modal", "memory", text.rstrip("mgt"), expected, "4g") * unit)
    if not megabytes:
        raise make_option_error("modal", "memory", options["memory"], expected, "4g")
    return megabytes
