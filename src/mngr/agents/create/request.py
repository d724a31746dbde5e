"""The request of a user to create agents, as typed data."""

from __future__ import annotations

from mngr.base.model import Struct


class CreateRequest(Struct):
    """Everything a user can ask of `create`."""

    address: str | None = None
    kind: str | None = None
    args: list[str] = []
    source: str | None = None
    branch: str | None = None
    transfer: str | None = None
    dirty: str = "fail"  # fail | ignore | include
    notes_ignored: bool = False  # whether to note what `ignore` leaves behind
    env: list[str] = []
    pass_env: list[str] = []
    env_file: list[str] = []
    labels: dict[str, str] = {}
    windows: dict[str, str] = {}
    idle_timeout: float | None = None
    activity: str = "output"
    sandbox: bool = False
    network: str | None = None  # None: off in a sandbox, else on
    build_args: list[str] = []  # of a new host: KEY=VALUE or KEY+=VALUE, as in the provider's settings
    new_host: bool = False  # it must not be there already
    yolo: bool = False  # the program asks nobody for permission
    resume: str | None = None  # a conversation that was begun outside
    yolo_confirmed: bool = False  # and may do so where it can reach more than its own host
    count: int = 1
    agents_per_host: int | None = None  # agents on each new host; None: all on one
    message: str | None = None  # the first one
    message_timeout: float = 30.0  # seconds for it to arrive
    reuse: bool = False
