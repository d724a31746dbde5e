"""How the steps that create an agent reach its host. On a distant host, a round trip takes longer than most steps."""

from __future__ import annotations

from mngr.host.batched_host import batch_commands

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.agents.create.planning import CreatePlan
    from mngr.agents.interact.message import QueuedMessage
    from mngr.base.model import AgentRecord
    from mngr.host.protocol import Host

MAX_PARALLEL_AGENTS = 4  # on each host


def open_step_host(ctx: Context, plan: CreatePlan) -> Host:
    """Return the host for all steps of one agent. If possible, it collects commands and sends several at once."""
    # A plugin must see each step done, and a project on another host must not arrive too late.
    can_collect = plan.source.host.is_local and not ctx.hooks.plugins
    return batch_commands(plan.host) if can_collect else plan.host


def queue_first_message(ctx: Context, host: Host, plan: CreatePlan, record: AgentRecord) -> QueuedMessage | None:
    """Send the first message with the next command. Return None if the message has to be sent after the creation."""
    text = plan.spec.message
    if text is None or plan.agent_count > MAX_PARALLEL_AGENTS:  # New agents would wait until earlier ones are ready.
        return None
    from mngr.agents.interact.message import queue_message

    return queue_message(ctx, host, record, text, get_message_timeout(plan.spec.count))


def get_message_timeout(count: int) -> float:
    """Return the seconds in which a first message must arrive. Several programs that start together take longer."""
    return 30.0 + 3.0 * (count - 1)
