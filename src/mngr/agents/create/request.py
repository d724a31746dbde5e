"""The user's request to create agents, as typed data."""

from __future__ import annotations

from mngr.base.model import Struct


class CreateRequest(Struct):
    """All options of `mngr create`."""

    address: str | None = None
    kind: str | None = None
    args: list[str] = []
    source: str | None = None
    branch: str | None = None
    transfer: str | None = None
    dirty: str = "fail"  # fail | ignore | include
    notes_ignored: bool = False  # tell the user about uncommitted changes that `ignore` leaves behind
    env: list[str] = []
    pass_env: list[str] = []
    env_file: list[str] = []
    labels: dict[str, str] = {}
    windows: dict[str, str] = {}
    idle_timeout: float | None = None
    activity: str = "output"
    sandbox: bool = False
    network: str | None = None  # None: only the model's addresses in a sandbox, otherwise on
    build_args: list[str] = []  # settings of a new host: KEY=VALUE or KEY+=VALUE, as in the provider's settings
    new_host: bool = False  # fail when the host exists already
    yolo: bool = False  # the agent never asks for permission
    resume: str | None = None  # the id of a conversation that was started outside mngr
    yolo_confirmed: bool = False  # allow `yolo` also outside a sandbox or a disposable host
    count: int = 1
    agents_per_host: int | None = None  # None: all agents on one host
    message: str | None = None  # the first message to each agent
    message_timeout: float = 30.0  # seconds in which the message must arrive
    reuse: bool = False
