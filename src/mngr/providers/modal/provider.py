"""Modal sandboxes as hosts, reached only through Modal's exec. A stopped host is an image of its files."""

from __future__ import annotations

import json
import os
import time

from mngr.base import clock, names, shell
from mngr.base.config import as_list
from mngr.base.errors import HostGone, HostStopped, MngrError, UsageError
from mngr.base.paths import SNAPSHOT_EXCLUDES, find_project_root
from mngr.host import registry, scripts
from mngr.providers.bridge.connection import IDLE_SECONDS, Bridge, BridgeWire, EngineModule, StoppedWire
from mngr.providers.shared.host_options import get_author, parse_network, parse_number
from mngr.providers.shared.on_demand import EngineDefaults, FoundMachine, OnDemandProvider

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable
    from typing import Any

    from mngr.base.errors import Unreachable
    from mngr.base.paths import Home
    from mngr.host.remote_host import Transport
    from mngr.providers.shared.on_demand import Engine, Facts, Note

ERROR_HINTS = {
    "unreachable": "is there a network? see https://status.modal.com",
    "auth": "log in: modal token new; or set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET",
    "missing": "install it there: pip install 'modal>=1.5,<1.7'; or choose another: [providers.modal] python",
    "busy": "wait until hosts are stopped or destroyed, or ask for fewer at a time",
}
_ENGINE = EngineModule(
    name="mngr.providers.modal.bridge",
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


class ModalProvider(OnDemandProvider):
    """Provides the sandboxes of one Modal workspace as hosts."""

    project_options = (*IMAGE_OPTIONS, "cpus", "memory")

    def make_engine(self, name: str, home: Home, options: dict[str, Any], note: Note) -> Engine:
        return ModalEngine(name, home, options, note)


class ModalEngine(EngineDefaults):
    """The engine for Modal. The code that uses Modal's library is in mngr.providers.modal.bridge."""

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

    def __init__(self, provider: str, home: Home, options: dict[str, Any], note: Note) -> None:
        self._provider = provider
        self._home = home
        self._note = note
        self._key = registry.compute_owner_key(home)
        self._bridge = Bridge(
            provider,
            home,
            _ENGINE,
            {key: options.get(key) for key in ("app", "environment")},
            python=options.get("python"),
            linger=_parse_seconds(options, "linger") or IDLE_SECONDS,
        )

    def plan_machine(self, name: str, options: Facts) -> Facts:
        random_id = os.urandom(6).hex()
        tag = f"{self._key}-{random_id}"
        words: dict[str, Any] = {
            "timeout": _parse_whole_seconds(options, "timeout") or int(MAX_SANDBOX_SECONDS),
            "idle_timeout": _parse_whole_seconds(options, "idle_timeout"),
            "region": options.get("region"), "gpu": options.get("gpu"),
            "cpu": parse_number("cpus", options["cpus"]) if options.get("cpus") else None,
            "memory": _parse_megabytes(options), **_parse_network(parse_network(options)),
        }  # fmt: skip
        if words["timeout"] > MAX_SANDBOX_SECONDS:
            raise UsageError("timeout cannot be more than 24h on Modal", "a host that ends can be started again")
        return {
            "tag": tag, "origin": _build_image_spec(options), "author": get_author(),
            "clears": bool(options.get("snapshot")),
            "words": {key: value for key, value in words.items() if value is not None},
            "tags": {"mngr": self._key, "host": name, "tag": tag},
        }  # fmt: skip

    def create(self, name: str, facts: Facts) -> Facts:
        return {**facts, **self._create_sandbox(name, facts, facts["origin"])}

    def build_first_program(self, name: str, facts: Facts) -> str:
        """Return a program that creates the user and git author, and deletes agents that came with a snapshot."""
        words = shell.join(["root", "0", "/root", HALT_FILE, *facts["author"]])
        return (
            f"({_CLEAR_AGENTS_SCRIPT})\n" if facts["clears"] else ""
        ) + f"set -- {words}\n{scripts.read_program('user.sh')}"

    def _create_sandbox(self, name: str, facts: Facts, origin: Facts) -> Facts:
        """Create a sandbox and return its facts, with the time when it ends."""
        if not facts["words"]:  # The sandbox was created by another home.
            raise MngrError(
                f"it is not known any more what {name} was made with, so it cannot be started again",
                f"its files are in the image {origin.get('id')}; for another host: -b image={origin.get('id')}",
            )
        tags = {**facts["tags"], **_encode_tags(facts["words"])}
        created = self._bridge.call(
            "create", note=self._note, host=name, origin=origin, name=name[:63], tags=tags,
            argv=["sh", "-c", _IDLE_SCRIPT, HALT_FILE], shape=facts["words"],
        )  # fmt: skip
        return {**created, "ends_at": clock.format_timestamp(time.time() + facts["words"]["timeout"])}

    def find_existing(self, name: str) -> Facts | None:
        answer = self._bridge.call("find_by_name", host=name, name=name[:63])
        if not answer:
            return None
        tags = answer["tags"]
        if not tags.get("mngr"):
            raise MngrError(f"there is a sandbox {name!r} that mngr did not make", "choose another name for the host")
        facts = {"sandbox": answer["sandbox"], "tag": tags.get("tag", ""), "tags": tags}
        return {**facts, "words": _decode_tags(tags), "whose": tags["mngr"]}

    def open_wire(self, name: str, facts: Facts) -> Transport:
        if not facts.get("sandbox"):
            return StoppedWire(self._provider, name)
        words = {"sandbox": facts["sandbox"]}
        if idle := facts["words"].get("idle_timeout"):
            words["stay"] = f"set -- {idle}\n{scripts.read_program_beside(__file__, 'stay.sh')}"
        return ModalWire(self._bridge, name, words, lambda: self._find_latest_image(name, facts) is not None)

    def start(self, name: str, facts: Facts) -> Facts:
        image = facts.get("image")
        if facts.get("sandbox"):
            state = self._bridge.call("get_state", host=name, sandbox=facts["sandbox"])
            if state["state"] == "running":
                return facts
            if facts.get("whose", self._key) != self._key:  # Its owner may have started it again.
                return self.find_existing(name) or facts
            image = self._find_saved_image(name, facts, state)
        if not image:
            raise HostGone(self._provider, name, "its sandbox has ended and its files were not kept")
        return {**facts, **self._create_sandbox(name, facts, {"id": image}), "image": image}

    def stop(self, name: str, facts: Facts) -> Facts:
        if not facts.get("sandbox"):
            return facts
        state = self._bridge.call("get_state", host=name, sandbox=facts["sandbox"])
        if state["state"] == "running":
            image: str | None = self._save_image(name, facts)
        else:
            image = self._find_saved_image(name, facts, state)
        if image is None:
            raise HostGone(self._provider, name, "its sandbox has ended and its files were not kept")
        self._end_sandboxes(name, facts, image)
        self._delete_old_images(name, image)
        return {**facts, "sandbox": None, "image": image, "ends_at": None}

    def remove(self, name: str, facts: Facts) -> None:
        self._end_sandboxes(name, facts, None)
        if facts.get("image"):
            self._bridge.call("delete_images", images=[facts["image"]])
        self._delete_old_images(name, None)

    def list_machines(self) -> builtins.list[FoundMachine]:
        removal = "python -c 'import modal; modal.Sandbox.from_id(\"{}\").terminate()'"
        return [
            FoundMachine(
                resource_kind="sandbox",
                name=row["sandbox"],
                tag=row["tags"].get("tag", ""),
                removal_command=removal.format(row["sandbox"]),
            )
            for row in self._bridge.call("list", tags={"mngr": self._key})["sandboxes"]
        ]

    def save_snapshot(self, name: str, facts: Facts, directory: str) -> Facts:
        if not facts.get("sandbox"):
            raise HostStopped(self._provider, name)
        note = str(self.find_partial_snapshot(directory)["note"])

        def keep(answer: Facts) -> None:
            with open(note, "w", encoding="utf-8") as file:
                file.write(answer["image"])

        return self._bridge.call("snapshot", host=name, sandbox=facts["sandbox"], keep=keep)

    def find_partial_snapshot(self, directory: str) -> Facts:
        """Return the path of the note with the image of a snapshot."""
        return {"note": os.path.join(directory, "image")}

    def delete_snapshot(self, facts: Facts) -> None:
        image = facts["image"] if "image" in facts else _read_note(facts["note"])
        if image:
            self._bridge.call("delete_images", images=[image])

    def _end_sandboxes(self, name: str, facts: Facts, kept_image: str | None) -> None:
        """End all sandboxes of the host. Delete the images of ended ones, except for `kept_image`."""
        words = {"name": name[:63], "tag": facts["tag"], "sandbox": facts.get("sandbox"), "spare": kept_image}
        self._bridge.call("terminate", host=name, **words)

    def _save_image(self, name: str, facts: Facts) -> str:
        """Save the files of a sandbox as an image and return its id. It is recorded at once, or it would be lost."""

        def keep(answer: Facts) -> None:
            self._record_image(name, str(answer["image"]))

        return str(self._bridge.call("snapshot", host=name, sandbox=facts["sandbox"], keep=keep)["image"])

    def _find_saved_image(self, name: str, facts: Facts, state: Facts) -> str | None:
        """Return the image of an ended sandbox: the one from its end, otherwise the latest one that is recorded."""
        if state["state"] == "ended" and not state.get("image"):
            raise MngrError(f"Modal still keeps the files of {name}", "try again in a minute")
        if image := state.get("image"):
            self._record_image(name, image)
            return str(image)
        last = self._find_latest_image(name, facts)
        if last:
            self._note(f"the files of {name} are as they were last kept: its sandbox is gone")
        return last

    def _find_latest_image(self, name: str, facts: Facts) -> str | None:
        """Return the newest recorded image of a host's files, or None."""
        recorded = registry.find_facts(self._home, self._provider, name, "images") or {}
        last: str | None = [facts.get("image"), *recorded.get("images", [])][-1]
        return last

    def _record_image(self, name: str, image: str) -> None:
        """Record an image of a host's files in the registry."""
        recorded = registry.find_facts(self._home, self._provider, name, "images") or {}
        images = [*(other for other in recorded.get("images", []) if other != image), image]
        registry.save_facts(self._home, self._provider, name, {"images": images}, "images")

    def _delete_old_images(self, name: str, kept_image: str | None) -> None:
        """Delete all recorded images of a host, except for `kept_image`."""
        recorded = registry.find_facts(self._home, self._provider, name, "images") or {}
        others = [image for image in recorded.get("images", []) if image != kept_image]
        if others:
            self._bridge.call("delete_images", images=others)
        if kept_image is None:
            registry.delete_phases(self._home, self._provider, name, "images")
        else:
            registry.save_facts(self._home, self._provider, name, {"images": [kept_image]}, "images")


class ModalWire(BridgeWire):
    """The transport to a sandbox. If the sandbox is gone but an image exists, the host counts as stopped."""

    def __init__(self, bridge: Bridge, host: str, words: dict[str, Any], has_image: Callable[[], bool]) -> None:
        super().__init__(bridge, host, words)
        self._is_kept = has_image

    def make_lost_error(self, stderr: str) -> Unreachable:
        error = super().make_lost_error(stderr)
        if isinstance(error, HostGone) and self._is_kept():
            return HostStopped(error.provider, error.host, "its sandbox is gone, its files are as last kept")
        return error


def _encode_tags(words: Facts) -> dict[str, str]:
    """Return the options of a sandbox as tags, so that another home can start it again.

    A tag has at most 63 letters, digits, `-` and `_`. Long options, such as a list of allowed destinations, would
    need many tags, whose number may be limited. Then the result is empty.
    """
    import base64

    text = base64.urlsafe_b64encode(json.dumps(words, separators=(",", ":")).encode()).decode().rstrip("=")
    parts = [text[index : index + 63] for index in range(0, len(text), 63)]
    return {f"words-{index}": part for index, part in enumerate(parts)} if len(parts) < 6 else {}


def _decode_tags(tags: dict[str, str]) -> Facts:
    """Return the options that `_encode_tags` stored in the tags."""
    import base64

    text = "".join(tags[key] for key in sorted(tags) if key.startswith("words-"))
    words: Facts = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)) or "{}")
    return words


def _build_image_spec(options: Facts) -> Facts:
    """Return the description from which the bridge builds or finds the image."""
    if options.get("snapshot"):
        return {"id": options["snapshot"]["image"]}
    spec: Facts = {
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


def _read_note(path: str) -> str:
    """Return the contents of a note, or an empty text when there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def _parse_network(text: str) -> Facts:
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
            (destination, port), *_ = names.parse_network(f"allow={word}")[1]
        if _is_address(destination):
            raise UsageError(
                f"--network allow: {word} cannot be had on Modal",
                f"an address there is allowed for every port: {destination}",
            )
        if port not in (None, 443):
            raise UsageError(
                f"--network allow: {word} cannot be had on Modal",
                "names there are for port 443; what else is allowed is an address or a range: 203.0.113.0/24",
            )
        allowlists["outbound_domain_allowlist"].append(destination)
    return {key: value for key, value in allowlists.items() if value}


def _is_address(text: str) -> bool:
    """True when the text is an IP address."""
    import ipaddress

    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _parse_seconds(options: Facts, key: str) -> float | None:
    return clock.parse_duration(str(options[key])) if options.get(key) else None


def _parse_whole_seconds(options: Facts, key: str) -> int | None:
    """Return a duration in whole seconds, or None when it is not set or 0."""
    seconds = _parse_seconds(options, key)
    if seconds and seconds < 1:
        raise UsageError(f"{key} cannot be {options[key]!r}", "a second or more, for example 10m")
    return int(seconds) if seconds else None


def _parse_megabytes(options: Facts) -> int | None:
    """Return the memory option in megabytes, or None when it is not set."""
    text = str(options.get("memory") or "").lower().removesuffix("b").removesuffix("i")
    if not text:
        return None
    unit = {"m": 1, "g": 1024, "t": 1 << 20}.get(text[-1], 1)
    hint = "for example 512m or 4g"
    megabytes = int(parse_number("memory", text.rstrip("mgt"), hint) * unit)
    if not megabytes:
        raise UsageError(f"memory cannot be {options['memory']!r}", hint)
    return megabytes
