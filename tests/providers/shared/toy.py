"""An engine whose machines are directories, to test OnDemandProvider."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mngr.base.config import Settings
from mngr.base.errors import EngineBusy, HostGone, HostStopped, Unreachable, UsageError
from mngr.base.paths import Home
from mngr.host import registry
from mngr.host.protocol import Provider
from mngr.plugins.hooks import hookimpl
from mngr.providers.shared.on_demand import Engine, EngineDefaults, FoundMachine, OnDemandProvider

_ENTER = '''
[ -d "$0" ] || { echo gone >&2; exit 1; }
[ "$(cat "$0/on" 2>/dev/null)" = "$1" ] || { echo stopped >&2; exit 1; }
shift; HOME=$0 exec "$@"'''


class ToyWire:
    """A transport to a shell whose home is the machine's directory."""

    def __init__(self, name: str, path: str, turn: int) -> None:
        self._name = name
        self._way = [path, str(turn)]

    def build_argv(self, program: str, *, terminal: bool = False, only: Sequence[str] | None = None) -> list[str]:
        env_command = [] if only is None else ["env", "-i", *only]
        return ["sh", "-c", _ENTER, *self._way, *env_command, "sh", "-c", program]

    def make_lost_error(self, stderr: str) -> Unreachable:
        if stderr == "stopped":
            return HostStopped("toy", self._name)
        return HostGone("toy", self._name, "its directory was removed") if stderr == "gone" else Unreachable(stderr)

    def close(self) -> None:
        pass


class ToyEngine(EngineDefaults):
    """Directories below the setting `root`, named NAME.TAG.KEY. A running one has a file `on` with its start count."""

    options: tuple[str, ...] = ("size", "env.")
    settings: tuple[str, ...] = ("root",)
    can_stop = True
    can_snapshot = True

    def __init__(self, home: Home, options: dict[str, Any]) -> None:
        self._root = Path(str(options["root"]))
        self._key = registry.compute_owner_key(home)

    def plan_machine(self, name: str, options: dict[str, Any]) -> dict[str, Any]:
        if options.get("size") == "absurd":
            raise UsageError("no machine is that large", "ask for less")
        return {"tag": os.urandom(4).hex(), "from": options.get("snapshot"), "size": options.get("size")}

    def create(self, name: str, facts: dict[str, Any]) -> dict[str, Any]:
        self._fault("full", EngineBusy("there is no room", "wait"))
        machine_dir = self._root / f"{name}.{facts['tag']}.{self._key}"
        if facts["from"]:
            shutil.copytree(Path(facts["from"]["place"]) / "files", machine_dir)
        machine_dir.mkdir(exist_ok=True)
        self._fault("die in make", None)
        (machine_dir / "on").write_text("1")
        self._fault("die after make", None)
        return {**facts, "path": str(machine_dir), "turn": 1}

    def find_existing(self, name: str) -> dict[str, Any] | None:
        for machine_dir in self._root.glob(f"{name}.*"):
            _, tag, key = machine_dir.name.rsplit(".", 2)
            return {"tag": tag, "whose": key, "path": str(machine_dir), "turn": int((machine_dir / "on").read_text())}
        return None

    def open_wire(self, name: str, facts: dict[str, Any]) -> ToyWire:
        return ToyWire(name, facts["path"], facts["turn"])

    def start(self, name: str, facts: dict[str, Any]) -> dict[str, Any]:
        if not os.path.isdir(facts["path"]):
            raise HostGone("toy", name, "its directory was removed")
        on = Path(facts["path"], "on")
        turn = int(on.read_text()) if on.exists() else facts["turn"] + 1
        on.write_text(str(turn))
        self._fault("die in start", None)
        return {**facts, "turn": turn}

    def stop(self, name: str, facts: dict[str, Any]) -> dict[str, Any]:
        Path(facts["path"], "on").unlink(missing_ok=True)
        self._fault("die in stop", None)
        return facts

    def remove(self, name: str, facts: dict[str, Any]) -> None:
        for machine_dir in self._root.glob(f"*.{facts['tag']}.*"):
            shutil.rmtree(machine_dir)
        self._fault("die in remove", None)

    def list_machines(self) -> list[FoundMachine]:
        return [
            FoundMachine(
                resource_kind="directory",
                name=machine_dir.name,
                tag=machine_dir.name.split(".")[-2],
                removal_command=f"rm -r {machine_dir}",
            )
            for machine_dir in self._root.glob(f"*.{self._key}")
        ]

    def save_snapshot(self, name: str, facts: dict[str, Any], directory: str) -> dict[str, Any]:
        shutil.copytree(facts["path"], Path(directory) / "files", ignore=shutil.ignore_patterns("on", ".mngr"))
        return {"of": name}

    def delete_snapshot(self, facts: dict[str, Any]) -> None:
        (self._root / f"dropped-{facts['of']}").touch()

    def _fault(self, fault: str, error: Exception | None) -> None:
        """Raise the error, or kill this process, if the file `faults` asks for this fault. It happens once."""
        file = self._root / "faults"
        if not file.exists() or file.read_text() != fault:
            return
        file.unlink()
        if error is not None:
            raise error
        os.kill(os.getpid(), signal.SIGKILL)


class ToyProvider(OnDemandProvider):
    """Provides directories as hosts."""

    patience = 3.0

    def make_engine(self, name: str, home: Home, options: dict[str, Any], note: Any) -> Engine:
        return ToyEngine(home, options)


def _say(text: str) -> None:
    print(text, file=sys.stderr)


@hookimpl
def mngr_providers(home: Home, settings: Settings) -> list[Provider]:
    return [ToyProvider("toy", home, settings.get_table("providers.toy"), _say)]
