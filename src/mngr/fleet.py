"""`from mngr import Fleet`: everything the commands can do, as typed Python."""

from __future__ import annotations

from mngr.ops.context import Context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.model import AgentView
    from mngr.ops.create import CreateRequest
    from mngr.ops.list import Listing


class Fleet:
    """The agents of one home.

    >>> fleet = Fleet()
    >>> agent = fleet.create("foo", command=["make", "test"])
    >>> fleet.wait(["foo"], state="DONE")
    """

    def __init__(self, home: str | None = None, *, cwd: str | None = None, context: Context | None = None) -> None:
        self.context = context or Context(home, cwd=cwd)

    def list(self) -> Listing:
        """Every agent, and the hosts that did not answer."""
        from mngr.ops.list import list_agents

        return list_agents(self.context)

    def get(self, name: str) -> AgentView:
        """One agent; raises NotFound."""
        from mngr.ops.find import get_seen
        from mngr.ops.list import view

        return view(get_seen(self.context, name))

    def create_many(self, request: CreateRequest) -> list[AgentView | Exception]:
        """What `mngr create` does: one answer per agent asked for."""
        from mngr.ops.create import create

        return [item if isinstance(item, Exception) else self.get(item.id) for item in create(self.context, request)]
