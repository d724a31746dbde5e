"""The frozen data classes that all layers exchange.

`Struct` behaves like a frozen keyword-only dataclass. It exists because importing `dataclasses`
(and with it `inspect`) takes a quarter of the time that `mngr list` may take (docs/adr/0001).
"""

from __future__ import annotations


class FieldDescription:
    """The default of a Struct's field, and what a person who sets the field must know."""

    def __init__(self, *, default: object, help: str, choices: tuple[str, ...] = ()) -> None:
        self.default = default
        self.help = help
        self.choices = choices


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Self, TypeVar, dataclass_transform

    Value = TypeVar("Value")

    def describe(*, default: Value, help: str, choices: tuple[str, ...] = ()) -> Value: ...

else:
    describe = FieldDescription

    def dataclass_transform(**_):
        return lambda cls: cls


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(describe,))
class Struct:
    """Immutable keyword-only fields with equality, a repr and `replace`.

    A field whose default is `describe(default=…, help=…)` has an entry in `_descriptions`.
    """

    _fields: tuple[str, ...] = ()
    _field_set: frozenset[str] = frozenset()
    _defaults: dict[str, Any] = {}
    _descriptions: dict[str, FieldDescription] = {}

    def __init_subclass__(cls) -> None:
        own = [name for name in cls.__dict__.get("__annotations__", {}) if not name.startswith("_")]
        cls._fields = cls._fields + tuple(name for name in own if name not in cls._fields)
        cls._field_set = frozenset(cls._fields)
        defaults = {name: cls.__dict__[name] for name in own if name in cls.__dict__}
        descriptions = {name: value for name, value in defaults.items() if type(value) is FieldDescription}
        for name, description in descriptions.items():
            defaults[name] = description.default
            setattr(cls, name, description.default)
        cls._defaults = {**cls._defaults, **defaults}
        cls._descriptions = {**cls._descriptions, **descriptions}

    def __init__(self, **values: Any) -> None:
        merged = {**self._defaults, **values}
        if merged.keys() != self._field_set:
            bad_fields = sorted(set(self._fields) ^ set(merged))
            raise TypeError(f"{type(self).__name__}: missing or unknown fields: {', '.join(bad_fields)}")
        self.__dict__.update(merged)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), repr(self)))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={self.__dict__[name]!r}" for name in self._fields)
        return f"{type(self).__name__}({fields})"

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        copy = object.__new__(type(self))
        fields = copy.__dict__
        fields.update(self.__dict__)
        fields.update(changes)
        if len(fields) != len(self._fields):
            type(self)(**fields)  # raises TypeError
        return copy

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        """Return an object with these fields, faster than by keywords. Other names than those of fields are not found."""
        if len(fields) != len(cls._fields):
            return cls(**fields)  # raises TypeError
        struct = object.__new__(cls)
        struct.__dict__.update(fields)
        return struct

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in the order of their declaration."""
        return {name: self.__dict__[name] for name in self._fields}


STATES = ("STARTING", "RUNNING", "WAITING", "PARKED", "DONE", "FAILED", "STOPPED", "UNKNOWN")
TRANSFER_MODES = ("worktree", "mirror", "copy", "none")


class AgentRecord(Struct):
    """The facts about an agent that mngr stores on the agent's host, in `agents/ID/agent.json`."""

    v: int = 1
    id: str
    name: str
    kind: str
    phase: str  # creating | ready | destroying; `gc` finishes or undoes an interrupted phase
    owner: dict[str, object] | None = None  # the process that carries out this phase
    host: str = "local"
    provider: str = "local"
    project: str
    source: str | None  # the repository or directory that the work dir is a copy of
    work_dir: str
    transfer: str
    branch: str | None = None
    base: str | None = None  # the commit that the work starts from
    branch_is_new: bool = False  # mngr created the branch, so mngr may delete it
    created_at: str
    labels: dict[str, str] = {}
    command: list[str] = []
    options: dict[str, object] = {}  # private data of the agent kind
    windows: dict[str, str] = {}
    idle_timeout: float | None = None
    lifetime: float | None = None
    activity: str = "output"  # what counts as activity: output, input, process, or several with commas
    sandbox: bool = False  # the agent sees only the files that agents/sandbox/visible_files.py names
    network: str = "on"  # on | off | allow=HOST[:PORT],…


class AgentState(Struct):
    """A state, its reason, and the source from which mngr derived it."""

    state: str
    reason: str | None = None
    source: str  # record | exit | process | hook | transcript | screen
    since: str | None = None
    parked_until: str | None = None


class Evidence(Struct):
    """Everything that one look at the host shows about an agent. mngr derives the state from it."""

    now: float
    is_owner_alive: bool = False
    pane: dict[str, str] | None = None
    exit: dict[str, object] | None = None
    stopped: dict[str, object] | None = None
    hook_status: dict[str, object] | None = None  # the latest status that the agent's hooks wrote
    program_status: dict[str, object] | None = (
        None  # the status file that the agent's program writes, in program-status/
    )
    host_time: float | None = None  # the host's clock, for comparison with times in program_status
    screen: str | None = None  # the last lines of the terminal, if the agent kind asks for them
    pid: int | None = None
    has_watcher: bool = False
    is_tmux_running: bool = True


class AgentView(Struct):
    """An agent as the commands and the JSON output show it."""

    id: str
    name: str
    kind: str
    state: str
    state_reason: str | None = None
    state_source: str
    state_since: str | None = None
    parked_until: str | None = None
    host: str
    provider: str
    host_state: str = "RUNNING"
    project: str
    work_dir: str
    branch: str | None = None
    base: str | None = None
    created_at: str | None = None
    activity_at: str | None = None
    labels: dict[str, str] = {}
    pid: int | None = None
    exit_code: int | None = None
    usage: dict[str, object] | None = None
    unpulled: int | None = None
    dirty: bool | None = None


class Outcome(Struct):
    """The result of an operation for one of several targets."""

    id: str | None
    name: str
    ok: bool = True
    error: str | None = None
    hint: str | None = None
    exit_code: int = 0  # one of mngr's exit codes, when not ok
    extra: Mapping[str, object] = {}
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the entry for this target in the `results` of the JSON output."""
        return {"id": self.id, "name": self.name, "ok": self.ok, "error": self.error, **self.extra}
