"""From what a user typed to the agent that is meant."""

from __future__ import annotations

from mngr import names, store
from mngr.errors import MngrError, NotFound, Unreachable, UsageError, closest
from mngr.ops import list as listing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.host import Host
    from mngr.model import AgentRecord
    from mngr.names import Address
    from mngr.ops.context import Context
    from mngr.ops.list import Seen


def address(ctx: Context, text: str) -> Address:
    """Parse with the providers there are."""
    return names.parse_address(
        text, (*names.PROVIDERS, *(p for p in ctx.providers if p not in names.PROVIDERS))
    )


def find(ctx: Context, text: str) -> tuple[Host, AgentRecord]:
    """The agent that `text` names; NotFound, MngrError when its record is damaged."""
    seen = [get_seen(ctx, text)]
    record = seen[0].record
    if record is None:
        raise MngrError(
            f"the record of {seen[0].id} is damaged: {seen[0].damage}",
            f"put it away with: mngr destroy --force {seen[0].id}",
        )
    return seen[0].host, record


def get_seen(ctx: Context, text: str) -> Seen:
    """The agent that `text` names, with its state."""
    wanted = address(ctx, text)
    if wanted.name is None:
        raise UsageError(f"{text!r} names a host, not an agent", "write NAME or NAME@HOST")
    if not ctx.home.exists():
        raise NotFound(f"there is no agent {wanted.name!r}", "make one: mngr create NAME -- COMMAND")
    known = store.find_id(ctx.home, wanted.name)
    if known is None and names.is_id(wanted.name):
        known = wanted.name
    if known is not None and wanted.provider in (None, "local") and wanted.host in (None, "local"):
        found = listing.look(ctx, ctx.local, [known])
        if found:
            return found[0]
    return _search(ctx, wanted)


def _search(ctx: Context, wanted: Address) -> Seen:
    """Look on every host: an agent made by another client, or a provider's that has no name here."""
    matches: list[Seen] = []
    everyone: list[str] = []
    unreachable: list[str] = []
    for provider in ctx.providers.values():
        if wanted.provider not in (None, provider.name):
            continue
        for host in provider.list():
            if wanted.host not in (None, host):
                continue
            try:
                rows = listing.look(ctx, ctx.host(provider.name, host))
            except Unreachable as error:
                unreachable.append(f"{host}: {error.message}")
                continue
            everyone.extend(seen.record.name for seen in rows if seen.record)
            matches.extend(s for s in rows if wanted.name in (s.id, s.record.name if s.record else None))
    if len(matches) > 1:
        listed = ", ".join(f"{s.id}@{s.host.name}" for s in matches)
        raise MngrError(f"{wanted.name!r} could be any of {listed}", "say which by its id")
    if matches:
        return matches[0]
    if unreachable:
        raise Unreachable(
            f"{wanted.name!r} may be on a host that does not answer: {'; '.join(unreachable)}", "try again"
        )
    assert wanted.name is not None
    raise NotFound(f"there is no agent {wanted.name!r}", closest(wanted.name, everyone) or "see: mngr list")
