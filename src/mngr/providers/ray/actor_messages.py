"""What mngr and the process with Ray's library tell each other about the actor of a host."""

from __future__ import annotations

from mngr.base.model import Struct
from mngr.base.untrusted_json import as_list, find_number, find_text, get_object, get_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class ActorPlan(Struct):
    """The names and places of a host's actor. Only the actor's name is known of a host of another home."""

    actor: str
    tag: str = ""
    author: list[str] = []  # name and email for git
    home: str | None = None  # the host's directory on its node
    backup_actor: str = ""  # the name of the actor that stores backups
    backup_dir: str = ""  # its directory

    @classmethod
    def read(cls, row: Mapping[str, object]) -> ActorPlan:
        """Return the plan that `to_dict` wrote."""
        return ActorPlan(
            actor=get_text(row, "actor"),
            tag=get_text(row, "tag"),
            author=[str(word) for word in as_list(row.get("author"))],
            home=find_text(row, "home"),
            backup_actor=get_text(row, "backup_actor"),
            backup_dir=get_text(row, "backup_dir"),
        )


class ResourceRequest(Struct):
    """The resources that a host needs from its node, in Ray's terms."""

    cpus: float
    gpus: float
    memory: int
    resources: dict[str, float] = {}
    placement: str = "spread"

    @classmethod
    def read(cls, row: Mapping[str, object]) -> ResourceRequest:
        """Return the request that `to_dict` wrote."""
        resources = get_object(row, "resources")
        return ResourceRequest(
            cpus=find_number(row, "cpus") or 0.0,
            gpus=find_number(row, "gpus") or 0.0,
            memory=int(find_number(row, "memory") or 0),
            resources={name: find_number(resources, name) or 0.0 for name in resources},
            placement=get_text(row, "placement", "spread"),
        )


class ActorAddress(Struct):
    """The actor to which a command goes, and the node on which it was last."""

    actor: str
    node: str | None = None
    address: str | None = None  # of the node

    @classmethod
    def read(cls, row: Mapping[str, object]) -> ActorAddress:
        """Return the address that `to_dict` wrote."""
        return ActorAddress(
            actor=get_text(row, "actor"), node=find_text(row, "node"), address=find_text(row, "address")
        )


class OpenedHost(Struct):
    """The answer of an actor whose host process runs."""

    space: str  # own: the host has its own pid namespace; shared: its node allows none
    node: str
    address: str

    @classmethod
    def read(cls, row: Mapping[str, object]) -> OpenedHost:
        """Return the answer that the actor gave."""
        return OpenedHost(space=get_text(row, "space"), node=get_text(row, "node"), address=get_text(row, "address"))
