"""Modal: a host is a sandbox, reached through its exec alone. A stopped one is an image of its files."""

from __future__ import annotations

import json
import os
import time

from mngr.base import clock, names, shell
from mngr.base.config import as_list
from mngr.base.errors import HostGone, HostStopped, MngrError, UsageError
from mngr.base.paths import SNAPSHOT_EXCLUDES, find_project_root
from mngr.host import registry, scripts
from mngr.providers.bridge.connection import IDLE_SECONDS, Bridge, BridgeWire, StoppedWire
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
MAX_SANDBOX_SECONDS = 86400.0  # seconds that a sandbox can live
IMAGE_OPTIONS = ("image", "dockerfile", "apt", "pip", "run")
HALT_FILE = "/tmp/.mngr-halt"
# The first process: ends when the watcher leaves word that all is idle.
_IDLE_SCRIPT = 'trap "exit 0" TERM; rm -f "$0"; while [ ! -e "$0" ]; do sleep 5 & wait $!; done'
# A snapshot has all files; agents have snapshots of their own, and what they were told is nobody else's.
_CLEAR_AGENTS_SCRIPT = f"cd ~/.mngr 2>/dev/null || exit 0; rm -rf {' '.join(SNAPSHOT_EXCLUDES)}"


class ModalProvider(OnDemandProvider):
    """Sandboxes of one workspace."""

    project_options = (*IMAGE_OPTIONS, "cpus", "memory")

    def make_engine(self, name: str, home: Home, options: dict[str, Any], note: Note) -> Engine:
        return ModalEngine(name, home, options, note)


class ModalEngine(EngineDefaults):
    """The engine as the others are; what there is to know of the library is in mngr.providers.modal.bridge, in the Python that has it."""

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
            provider, home, "mngr.providers.modal.bridge", {key: options.get(key) for key in ("app", "environment")},
            python=options.get("python"), linger=_parse_seconds(options, "linger") or IDLE_SECONDS, variables=("MODAL_", "HOME", "HTTPS_PROXY", "https_proxy"), hints=ERROR_HINTS,
        )  # fmt: skip

    def plan_machine(self, name: str, wish: Facts) -> Facts:
        number = os.urandom(6).hex()
        tag = f"{self._key}-{number}"
        words: dict[str, Any] = {
            "timeout": _parse_whole_seconds(wish, "timeout") or int(MAX_SANDBOX_SECONDS), "idle_timeout": _parse_whole_seconds(wish, "idle_timeout"),
            "region": wish.get("region"), "gpu": wish.get("gpu"), "cpu": parse_number("cpus", wish["cpus"]) if wish.get("cpus") else None,
            "memory": _parse_megabytes(wish), **_parse_network(parse_network(wish)),
        }  # fmt: skip
        if words["timeout"] > MAX_SANDBOX_SECONDS:
            raise UsageError("timeout cannot be more than 24h on Modal", "a host that ends can be started again")
        return {
            "tag": tag, "origin": _build_image_spec(wish), "author": get_author(), "clears": bool(wish.get("snapshot")),
            "words": {key: value for key, value in words.items() if value is not None},
            "tags": {"mngr": self._key, "host": name, "tag": tag},
        }  # fmt: skip

    def create(self, name: str, facts: Facts) -> Facts:
        return {**facts, **self._create_sandbox(name, facts, facts["origin"])}

    def build_first_program(self, name: str, facts: Facts) -> str:
        """There are a user and an author; of what a snapshot brought along, no agents."""
        words = shell.join(["root", "0", "/root", HALT_FILE, *facts["author"]])
        return (
            f"({_CLEAR_AGENTS_SCRIPT})\n" if facts["clears"] else ""
        ) + f"set -- {words}\n{scripts.read_program('user.sh')}"

    def _create_sandbox(self, name: str, facts: Facts, origin: Facts) -> Facts:
        """A sandbox, and when it ends."""
        if not facts["words"]:  # it was joined
            raise MngrError(
                f"it is not known any more what {name} was made with, so it cannot be started again",
                f"its files are in the image {origin.get('id')}; for another host: -b image={origin.get('id')}",
            )
        tags = {**facts["tags"], **_encode_tags(facts["words"])}
        made = self._bridge.call(
            "create", note=self._note, host=name, origin=origin, name=name[:63], tags=tags,
            argv=["sh", "-c", _IDLE_SCRIPT, HALT_FILE], shape=facts["words"],
        )  # fmt: skip
        return {**made, "ends_at": clock.format_timestamp(time.time() + facts["words"]["timeout"])}

    def find_existing(self, name: str) -> Facts | None:
        found = self._bridge.call("named", host=name, name=name[:63])
        if not found:
            return None
        tags = found["tags"]
        if not tags.get("mngr"):
            raise MngrError(f"there is a sandbox {name!r} that mngr did not make", "choose another name for the host")
        facts = {"sandbox": found["sandbox"], "tag": tags.get("tag", ""), "tags": tags}
        return {**facts, "words": _decode_tags(tags), "whose": tags["mngr"]}

    def open_wire(self, name: str, facts: Facts) -> Transport:
        if not facts.get("sandbox"):
            return StoppedWire(self._provider, name)
        words = {"sandbox": facts["sandbox"]}
        if idle := facts["words"].get("idle_timeout"):
            words["stay"] = f"set -- {idle}\n{scripts.read_program_beside(__file__, 'stay.sh')}"
        return ModalWire(self._bridge, name, words, lambda: self._find_latest_image(name, facts) is not None)

    def start(self, name: str, facts: Facts) -> Facts:
        kept = facts.get("image")
        if facts.get("sandbox"):
            state = self._bridge.call("state", host=name, sandbox=facts["sandbox"])
            if state["state"] == "running":
                return facts
            if facts.get("whose", self._key) != self._key:  # its owner may have started it again
                return self.find_existing(name) or facts
            kept = self._find_saved_image(name, facts, state)
        if not kept:
            raise HostGone(self._provider, name, "its sandbox has ended and its files were not kept")
        return {**facts, **self._create_sandbox(name, facts, {"id": kept}), "image": kept}

    def stop(self, name: str, facts: Facts) -> Facts:
        if not facts.get("sandbox"):
            return facts
        state = self._bridge.call("state", host=name, sandbox=facts["sandbox"])
        if state["state"] == "running":
            kept: str | None = self._save_image(name, facts)
        else:
            kept = self._find_saved_image(name, facts, state)
        if kept is None:
            raise HostGone(self._provider, name, "its sandbox has ended and its files were not kept")
        self._end_sandboxes(name, facts, kept)
        self._delete_old_images(name, kept)
        return {**facts, "sandbox": None, "image": kept, "ends_at": None}

    def remove(self, name: str, facts: Facts) -> None:
        self._end_sandboxes(name, facts, None)
        if facts.get("image"):
            self._bridge.call("delete", images=[facts["image"]])
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
            for row in self._bridge.call("find", tags={"mngr": self._key})["sandboxes"]
        ]

    def save_snapshot(self, name: str, facts: Facts, place: str) -> Facts:
        if not facts.get("sandbox"):
            raise HostStopped(self._provider, name)
        note = str(self.find_partial_snapshot(place)["note"])

        def keep(answer: Facts) -> None:
            with open(note, "w", encoding="utf-8") as file:
                file.write(answer["image"])

        return self._bridge.call("snapshot", host=name, sandbox=facts["sandbox"], keep=keep)

    def find_partial_snapshot(self, place: str) -> Facts:
        """Where the image of a snapshot to this place is noted."""
        return {"note": os.path.join(place, "image")}

    def delete_snapshot(self, facts: Facts) -> None:
        image = facts["image"] if "image" in facts else _read_note(facts["note"])
        if image:
            self._bridge.call("delete", images=[image])

    def _end_sandboxes(self, name: str, facts: Facts, kept: str | None) -> None:
        """No sandbox of that host's runs, and of what ended ones left only an image stays."""
        words = {"name": name[:63], "tag": facts["tag"], "sandbox": facts.get("sandbox"), "spare": kept}
        self._bridge.call("end", host=name, **words)

    def _save_image(self, name: str, facts: Facts) -> str:
        """The image of the files of a sandbox, noted before anything else is done: nothing else could find it again."""

        def keep(answer: Facts) -> None:
            self._record_image(name, str(answer["image"]))

        return str(self._bridge.call("snapshot", host=name, sandbox=facts["sandbox"], keep=keep)["image"])

    def _find_saved_image(self, name: str, facts: Facts, state: Facts) -> str | None:
        """The image of the files of a sandbox that has ended: what the end left, else the last that was kept."""
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
        """The newest image that is known of the files of a host."""
        noted = registry.find_facts(self._home, self._provider, name, "images") or {}
        last: str | None = [facts.get("image"), *noted.get("images", [])][-1]
        return last

    def _record_image(self, name: str, image: str) -> None:
        noted = registry.find_facts(self._home, self._provider, name, "images") or {}
        images = [*(one for one in noted.get("images", []) if one != image), image]
        registry.save_facts(self._home, self._provider, name, {"images": images}, "images")

    def _delete_old_images(self, name: str, kept: str | None) -> None:
        """Of the images of a host only one is needed, or none."""
        noted = registry.find_facts(self._home, self._provider, name, "images") or {}
        others = [one for one in noted.get("images", []) if one != kept]
        if others:
            self._bridge.call("delete", images=others)
        if kept is None:
            registry.delete_phases(self._home, self._provider, name, "images")
        else:
            registry.save_facts(self._home, self._provider, name, {"images": [kept]}, "images")


class ModalWire(BridgeWire):
    """The wire to a sandbox. A host with an image of its files is not gone with it."""

    def __init__(self, bridge: Bridge, host: str, words: dict[str, Any], is_kept: Callable[[], bool]) -> None:
        super().__init__(bridge, host, words)
        self._is_kept = is_kept

    def make_lost_error(self, said: str) -> Unreachable:
        error = super().make_lost_error(said)
        if isinstance(error, HostGone) and self._is_kept():
            return HostStopped(error.provider, error.host, "its sandbox is gone, its files are as last kept")
        return error


def _encode_tags(words: Facts) -> dict[str, str]:
    """What a sandbox is made with, for whoever joins it: each tag has at most 63 letters, digits, `-` and `_`.

    Nothing where that would be many tags, as for a long list of what the network allows: nobody knows how many may be.
    """
    import base64

    text = base64.urlsafe_b64encode(json.dumps(words, separators=(",", ":")).encode()).decode().rstrip("=")
    parts = [text[at : at + 63] for at in range(0, len(text), 63)]
    return {f"words-{at}": part for at, part in enumerate(parts)} if len(parts) < 6 else {}


def _decode_tags(tags: dict[str, str]) -> Facts:
    import base64

    text = "".join(tags[key] for key in sorted(tags) if key.startswith("words-"))
    words: Facts = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)) or "{}")
    return words


def _build_image_spec(wish: Facts) -> Facts:
    """What the image is made of."""
    if wish.get("snapshot"):
        return {"id": wish["snapshot"]["image"]}
    found: Facts = {key: [str(one) for one in as_list(wish[key])] for key in ("apt", "pip", "run") if wish.get(key)}
    image = str(wish.get("image") or "")
    if image.startswith("im-"):
        return {"id": image}
    if wish.get("dockerfile"):
        path = os.path.expanduser(str(wish["dockerfile"]))
        found["dockerfile"] = os.path.join(find_project_root(os.getcwd()) or os.getcwd(), path)
    elif image:
        found["image"] = image
    return found


def _read_note(path: str) -> str:
    """What is noted there; nothing when nothing is."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def _parse_network(text: str) -> Facts:
    """What Modal is told of the network."""
    import ipaddress

    if text == "off":
        return {"block_network": True}
    if text == "on":
        return {}
    found: dict[str, builtins.list[str]] = {"outbound_cidr_allowlist": [], "outbound_domain_allowlist": []}
    for word in text.removeprefix("allow=").split(","):
        try:
            found["outbound_cidr_allowlist"].append(str(ipaddress.ip_network(word.strip("[] "))))
            continue
        except ValueError:
            (place, port), *_ = names.parse_network(f"allow={word}")[1]
        if _is_address(place):
            raise UsageError(
                f"--network allow: {word} cannot be had on Modal",
                f"an address there is allowed for every port: {place}",
            )
        if port not in (None, 443):
            raise UsageError(
                f"--network allow: {word} cannot be had on Modal",
                "names there are for port 443; what else is allowed is an address or a range: 203.0.113.0/24",
            )
        found["outbound_domain_allowlist"].append(place)
    return {key: value for key, value in found.items() if value}


def _is_address(place: str) -> bool:
    import ipaddress

    try:
        ipaddress.ip_address(place)
    except ValueError:
        return False
    return True


def _parse_seconds(wish: Facts, key: str) -> float | None:
    return clock.parse_duration(str(wish[key])) if wish.get(key) else None


def _parse_whole_seconds(wish: Facts, key: str) -> int | None:
    """As Modal counts them; None when nothing is said, or 0."""
    found = _parse_seconds(wish, key)
    if found and found < 1:
        raise UsageError(f"{key} cannot be {wish[key]!r}", "a second or more, for example 10m")
    return int(found) if found else None


def _parse_megabytes(wish: Facts) -> int | None:
    text = str(wish.get("memory") or "").lower().removesuffix("b").removesuffix("i")
    if not text:
        return None
    unit = {"m": 1, "g": 1024, "t": 1 << 20}.get(text[-1], 1)
    hint = "for example 512m or 4g"
    found = int(parse_number("memory", text.rstrip("mgt"), hint) * unit)
    if not found:
        raise UsageError(f"memory cannot be {wish['memory']!r}", hint)
    return found
