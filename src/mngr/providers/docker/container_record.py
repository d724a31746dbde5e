"""The facts that mngr stores about the container of a host."""

from __future__ import annotations

from mngr.base.model import Struct
from mngr.base.untrusted_json import as_list, get_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.host.host_store import HostFacts


class ContainerFacts(Struct):
    """A container, its volume, and the arguments that create it again."""

    engine: list[str]  # the words that call the engine
    volume: str
    user: str
    container: str = ""  # the id, as soon as the container exists
    image: str = ""
    argv: list[str] = []  # the arguments of `docker run`; empty for a container of another home


def read_container(facts: HostFacts) -> ContainerFacts:
    """Return the container of a host."""
    return ContainerFacts(
        engine=[str(word) for word in as_list(facts.own.get("engine"))],
        volume=get_text(facts.own, "volume"),
        user=get_text(facts.own, "user"),
        container=get_text(facts.own, "container"),
        image=get_text(facts.own, "image"),
        argv=[str(word) for word in as_list(facts.own.get("argv"))],
    )
