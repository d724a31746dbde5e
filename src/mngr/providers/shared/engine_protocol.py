"""The protocol of an engine that creates hosts on demand, and what mngr stores about its machines."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from mngr.base.model import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from mngr.host.remote_host import Transport


class FoundMachine(Struct):
    """A resource on an engine that was created from this home."""

    resource_kind: str  # job, sandbox, image, …
    name: str
    tag: str
    removal_command: str  # the command with which a user can remove it


class Machine(Struct):
    """The facts that an engine stores about a machine. Each engine adds its own fields in a subclass."""

    tag: str  # every resource of the machine carries it
    home: str | None = None  # the agents' home
    whose: str | None = None  # the key of the home that created the machine
    alike: str | None = None  # mngr reads the facts of only one of the machines with the same value
    clears: bool = False  # the first program deletes files, so it must not run twice at once
    ends_at: str | None = None  # when the engine ends the machine by itself

    @classmethod
    def read(cls, row: dict[str, Any]) -> Self:
        """Return the machine that `write` wrote to the registry. Raise ValueError if it is incomplete."""
        try:
            return cls(**{name: row[name] for name in cls._fields if name in row})
        except TypeError as error:
            raise ValueError(str(error)) from None

    def write(self) -> dict[str, object]:
        """Return the machine as JSON for the registry, without the fields that are not known."""
        return {name: value for name, value in self.to_dict().items() if value is not None}


AnyMachine = TypeVar("AnyMachine", bound=Machine)


class Engine(Protocol[AnyMachine]):
    """Creates machines. Every resource of a host carries the host's `tag`, which `plan_machine` chooses.

    Every method raises Unreachable within seconds if the engine does not answer, and UsageError for invalid settings.
    """

    options: tuple[str, ...]  # options of -b that are also settings; `x.` allows every name that begins so
    settings: tuple[str, ...]  # other settings of the provider
    can_stop: bool
    can_snapshot: bool  # a SnapshotEngine; `options["snapshot"]` then holds the facts and `place` of a snapshot

    def read_machine(self, row: dict[str, object]) -> AnyMachine:
        """Return the machine that the registry holds as JSON."""
        ...

    def plan_machine(self, name: str, options: dict[str, object]) -> AnyMachine:
        """Return the machine for `create`. Creates nothing."""
        ...

    def create(self, name: str, machine: AnyMachine) -> AnyMachine:
        """Create the machine and return it when it answers. Raise EngineBusy if there is no capacity."""
        ...

    def build_first_program(self, name: str, machine: AnyMachine) -> str:
        """Return a program to run first on a new machine. It may run twice at once unless `clears` is true."""
        ...

    def check_stoppable(self, name: str, machine: AnyMachine) -> None:
        """Raise MngrError if this machine cannot be stopped, though others can."""
        ...

    def find_partial_snapshot(self, directory: str) -> dict[str, object] | None:
        """Return the facts with which `delete_snapshot` removes an interrupted snapshot, or None."""
        ...

    def find_existing(self, name: str) -> AnyMachine | None:
        """Start an existing machine of this name and return it, with its owner's key in `whose`, or None."""
        ...

    def open_transport(self, name: str, machine: AnyMachine) -> Transport:
        """Return the transport to a machine, without contacting it. Its errors say if it is stopped or gone."""
        ...

    def start_or_reuse_machine(self, name: str, machine: AnyMachine) -> AnyMachine:
        """Start the machine, or use one with its tag, and return it. Raise HostGone or EngineBusy."""
        ...

    def stop(self, name: str, machine: AnyMachine) -> AnyMachine:
        """Stop the machine, keep its files and return it. A stopped machine stays stopped."""
        ...

    def remove(self, name: str, machine: AnyMachine) -> None:
        """Remove every resource with the host's tag, if any exists. The machine may be only planned."""
        ...

    def list_machines(self) -> list[FoundMachine]:
        """Return all resources that carry this home's key."""
        ...


class EngineDefaults(Generic[AnyMachine]):
    """Default implementations of the optional methods of an engine."""

    def build_first_program(self, name: str, machine: AnyMachine) -> str:
        return ""

    def check_stoppable(self, name: str, machine: AnyMachine) -> None:
        return None

    def find_partial_snapshot(self, directory: str) -> dict[str, object] | None:
        return None


class SnapshotEngine(Engine[AnyMachine], Protocol[AnyMachine]):
    """An engine that can save a machine's files."""

    def save_snapshot(self, name: str, machine: AnyMachine, directory: str) -> dict[str, object]:
        """Save the files of a running machine, in `directory` or on the engine. Return facts to delete them."""
        ...

    def delete_snapshot(self, facts: dict[str, object]) -> None:
        """Delete the parts of a snapshot that are on the engine, if they still exist."""
        ...
