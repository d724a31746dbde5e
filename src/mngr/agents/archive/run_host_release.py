"""`release`: moves a run's agents on a host to the trash and destroys the host that was created for them."""

from __future__ import annotations

from mngr.agents import remove_hosts
from mngr.agents.archive.clean_rooms import CLEAN_ROOM_LABEL
from mngr.agents.archive.destroy import move_to_trash
from mngr.agents.context import Context
from mngr.agents.inspect.list import ObservedAgent
from mngr.agents.workdir.discard_agent import discard_agent
from mngr.base.errors import HostGone, MngrError, NotFound
from mngr.base.model import AgentRecord
from mngr.host import record_store

_HAS_NO_FILES = '[ -z "$(find "$1" ! -type d ! -name agent.json.new | head -n 1)" ]'


def trash_agents_and_destroy_host(ctx: Context, provider: str, name: str, label: tuple[str, str]) -> list[str]:
    """Destroy a host whose agents all have this label, and return the names of the agents moved to the trash.

    Raise MngrError when the host stays because an agent could not be saved or has another label.
    """
    try:
        return _save_agents_and_destroy(ctx, provider, name, label)
    except NotFound:  # Another command has destroyed the host already.
        return []


def _save_agents_and_destroy(ctx: Context, provider: str, name: str, label: tuple[str, str]) -> list[str]:
    """Move the labelled agents to the trash, delete their clean rooms, and destroy the host."""
    try:
        agents = remove_hosts.list_agents_to_destroy(ctx, provider, name)
    except HostGone:
        agents = []
    others = [agent for agent in agents if not _has_label(agent, label) and not _is_empty_directory(agent)]
    labelled = [agent for agent in agents if _has_label(agent, label)]
    to_save = []
    for agent in labelled:
        if agent.record is not None and (_has_label(agent, CLEAN_ROOM_LABEL) or _is_create_interrupted(agent.record)):
            discard_agent(ctx, agent.host, agent.record)
        else:
            to_save.append(agent)
    outcomes = move_to_trash(ctx, to_save)
    for outcome in outcomes:
        if not outcome.ok:
            raise MngrError(
                f"mngr did not destroy the host {name}, because it could not save the agent {outcome.name}: {outcome.error}",
                outcome.hint,
            )
    if others:
        other_name = others[0].record.name if others[0].record else others[0].id
        raise MngrError(
            f"mngr did not destroy the host {name}, because {other_name} also runs there",
            f"destroy the host when {other_name} has finished: mngr destroy @{name}.{provider}",
        )
    remove_hosts.destroy_host(ctx, provider, name)
    return [outcome.name for outcome in outcomes]


def _has_label(agent: ObservedAgent, label: tuple[str, str]) -> bool:
    """True when the agent's record has this label with this value."""
    return agent.record is not None and agent.record.labels.get(label[0]) == label[1]


def _is_create_interrupted(record: AgentRecord) -> bool:
    """True when the agent's create was interrupted, or belongs to this process.

    A process that releases a host no longer creates agents on it, so its own unfinished creates count too.
    """
    is_own = record_store.is_this_process(record.owner)
    return record.phase == "creating" and (is_own or not record_store.is_owner_alive(record.owner, elsewhere=True))


def _is_empty_directory(agent: ObservedAgent) -> bool:
    """True when the create was interrupted before the record was written: the directory holds no file."""
    return (
        agent.record is None
        and agent.host.run(["sh", "-c", _HAS_NO_FILES, "empty", agent.host.home.agent_dir(agent.id)]).code == 0
    )
