"""An engine whose machines are directories, to test OnDemandProvider."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from mngr.base.config import Settings
from mngr.base.errors import EngineBusy, HostGone, HostStopped, Unreachable, UsageError
from mngr.base.paths import Home
from mngr.base.untrusted_json import find_text, get_object
from mngr.host import host_store
from mngr.host.protocol import Provider
from mngr.plugins.hooks import hookimpl
from mngr.providers.shared.engine_protocol import Engine, EngineDefaults, FoundMachine, Machine
from mngr.providers.shared.on_demand import OnDemandProvider

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


class ToyMachine(Machine):
    """A directory that is a machine."""

    source: str | None = None  # the directory of the snapshot that the machine is a copy of
    size: str | None = None
    path: str = ""
    turn: int = 0  # how often the machine was started


class ToyEngine(EngineDefaults[ToyMachine]):
    """Directories below the setting `root`, named NAME.TAG.KEY. A running one has a file `on` with its start count."""

    options: tuple[str, ...] = ("size", "env.")
    settings: tuple[str, ...] = ("root", "places")
    can_stop = True
    can_snapshot = True

    def __init__(self, home: Home, options: dict[str, object]) -> None:
        self._root = Path(str(options["root"]))
        self._key = host_store.compute_owner_key(home)
        self._places = int(str(options.get("places", 1000)))  # machines that may exist at the same time

    def plan_machine(self, name: str, options: dict[str, object]) -> ToyMachine:
        size = find_text(options, "size")
        if size == "absurd":
            raise UsageError("no machine is that large", "ask for less")
        source = find_text(get_object(options, "snapshot"), "place")
        return ToyMachine(tag=os.urandom(4).hex(), source=source, size=size)

    def read_machine(self, row: dict[str, object]) -> ToyMachine:
        return ToyMachine.read(row)

    def create(self, name: str, machine: ToyMachine) -> ToyMachine:
        self._fault("full", EngineBusy("there is no room", "wait"))
        if sum(path.is_dir() for path in self._root.iterdir()) >= self._places:
            raise EngineBusy("all places are taken", "wait")
        machine_dir = self._root / f"{name}.{machine.tag}.{self._key}"
        if machine.source:
            shutil.copytree(Path(machine.source) / "files", machine_dir)
        machine_dir.mkdir(exist_ok=True)
        self._fault("die in make", None)
        (machine_dir / "on").write_text("1")
        self._fault("die after make", None)
        return machine.replace(path=str(machine_dir), turn=1)

    def find_existing(self, name: str) -> ToyMachine | None:
        for machine_dir in self._root.glob(f"{name}.*"):
            _, tag, key = machine_dir.name.rsplit(".", 2)
            turn = int((machine_dir / "on").read_text())
            return ToyMachine(tag=tag, whose=key, path=str(machine_dir), turn=turn)
        return None

    def open_transport(self, name: str, machine: ToyMachine) -> ToyWire:
        return ToyWire(name, machine.path, machine.turn)

    def start_or_reuse_machine(self, name: str, machine: ToyMachine) -> ToyMachine:
        if not os.path.isdir(machine.path):
            raise HostGone("toy", name, "its directory was removed")
        on = Path(machine.path, "on")
        turn = int(on.read_text()) if on.exists() else machine.turn + 1
        on.write_text(str(turn))
        self._fault("die in start", None)
        return machine.replace(turn=turn)

    def stop(self, name: str, machine: ToyMachine) -> ToyMachine:
        Path(machine.path, "on").unlink(missing_ok=True)
        self._fault("die in stop", None)
        return machine

    def remove(self, name: str, machine: ToyMachine) -> None:
        for machine_dir in self._root.glob(f"*.{machine.tag}.*"):
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

    def save_snapshot(self, name: str, machine: ToyMachine, directory: str) -> dict[str, object]:
        shutil.copytree(machine.path, Path(directory) / "files", ignore=shutil.ignore_patterns("on", ".mngr"))
        return {"of": name}

    def delete_snapshot(self, facts: dict[str, object]) -> None:
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


class ToyProvider(OnDemandProvider[ToyMachine]):
    """Provides directories as hosts."""

    patience = 3.0

    def make_engine(
        self, name: str, home: Home, options: dict[str, object], note: Callable[[str], None]
    ) -> Engine[ToyMachine]:
        return ToyEngine(home, options)


def _say(text: str) -> None:
    print(text, file=sys.stderr)


@hookimpl
def mngr_providers(home: Home, settings: Settings) -> list[Provider]:
    return [ToyProvider("toy", home, settings.get_table("providers.toy"), _say)]
