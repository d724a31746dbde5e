"""`message`: type into an agent's terminal, and know that it arrived."""

from __future__ import annotations

import math
import time

from mngr.agents.inspect import list as listing
from mngr.agents.inspect.targets import LIVE_STATES, make_failed_outcome, run_on_targets
from mngr.agents.lifecycle.hosts import resolve_and_start_hosts
from mngr.base.errors import MngrError, TimedOut
from mngr.base.model import Outcome
from mngr.host import scripts, store
from mngr.kinds.coding_agent import CodingAgentKind
from mngr.kinds.delivery import check_text, reject_slash_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mngr.agents.context import Context
    from mngr.agents.inspect.list import ObservedAgent
    from mngr.base.model import AgentRecord
    from mngr.base.shell import ProcessResult
    from mngr.host.batched_host import BatchedHost
    from mngr.host.protocol import Host
    from mngr.kinds.delivery import Delivery

DELIVERY_SECONDS = 30.0  # seconds for a message to arrive
RETRY_SECONDS = 1.0  # seconds after which an answer that changed nothing is given once more


def send_message(
    ctx: Context,
    names: list[str],
    text: str | None,
    *,
    answer: str | None = None,
    start: bool = False,
    wait: bool = False,
    timeout: float | None = None,
    raw: bool = False,
    found: list[ObservedAgent | MngrError] | None = None,
) -> list[Outcome]:
    """Deliver `text` to every agent at once; each outcome has `delivered` and `proof`, with `wait` also `state`.

    Instead of a text, `answer` is `allow` or `deny`, in the words of each agent's kind. `found`: how they were just seen.
    """
    if text is not None:
        check_text(text)
    began = time.monotonic()
    limit = DELIVERY_SECONDS if timeout is None else timeout

    def one(seen: ObservedAgent, record: AgentRecord) -> Outcome:
        delivery = (
            _make_permission_answer(ctx, seen, record, answer)
            if text is None
            else ctx.get_agent_kind(record).delivery(record, text)
        )
        if not raw:
            reject_slash_command(delivery)
            _check_accepts_text(seen, record, delivery)
        if wait and delivery.proof == "sent":
            hint = f"leave out --wait; for its end: mngr wait {record.name} --state DONE,FAILED"
            raise MngrError(f"{record.name} ({record.kind}) has no turns to wait for; nothing was sent", hint)
        if seen.state.state not in LIVE_STATES:
            if not start:
                hint = f"start it first: mngr message --start {record.name}"
                raise MngrError(f"{record.name} does not run ({seen.state.state})", hint)
            _start_agent(ctx, record)
        elif seen.state.reason == "login":
            from mngr.agents.launch.launch import refresh_login

            refresh_login(ctx, seen.host, record)
        _deliver(seen.host, record, delivery, limit)
        if delivery.is_key:
            _wait_until_answered(ctx, seen, record, delivery, limit)
        return Outcome(id=record.id, name=record.name, extra={"delivered": True, "proof": delivery.proof})

    blank = {"delivered": False, "proof": None}
    found = resolve_and_start_hosts(ctx, names) if start else found
    outcomes = [o if o.extra else o.replace(extra=blank) for o in run_on_targets(ctx, names, one, 16, found)]
    if not wait:
        return outcomes
    return _wait_for_turn_end(
        ctx, outcomes, None if timeout is None else max(0.0, timeout - (time.monotonic() - began))
    )


def _check_accepts_text(seen: ObservedAgent, record: AgentRecord, delivery: Delivery) -> None:
    """A text would choose among the answers of a question that is on the screen."""
    reason = seen.state.reason
    if seen.state.state == "WAITING" and reason in delivery.blocking_reasons:
        from mngr.agents.inspect.explain import suggest_answer

        said = f"{record.name} waits for an answer on its screen ({reason}); nothing was sent"
        raise MngrError(said, suggest_answer(reason, record.name))


def _wait_until_answered(
    ctx: Context, seen: ObservedAgent, record: AgentRecord, delivery: Delivery, limit: float
) -> None:
    """Wait until the question is no longer there; a key that came as it just appeared may have been ignored."""
    began = pressed = time.monotonic()
    while (look := listing.observe_host(ctx, seen.host, [record.id])) and look[0].state == seen.state:
        now = time.monotonic()
        if now > began + limit:
            hint = f"look at its screen: mngr capture {record.name}"
            raise TimedOut(f"{record.name} still asks after {limit:g}s", hint)
        if now > pressed + RETRY_SECONDS:
            _deliver(seen.host, record, delivery, limit)
            pressed = now
        time.sleep(0.05)


def _make_permission_answer(ctx: Context, seen: ObservedAgent, record: AgentRecord, answer: str | None) -> Delivery:
    """What to type, if the agent waits for a permission."""
    state = seen.state
    if (state.state, state.reason) != ("WAITING", "permission"):
        said = f"{state.state}" + (f" ({state.reason})" if state.reason else "")
        raise MngrError(f"{record.name} asks for no permission: it is {said}", f"see: mngr explain {record.name}")
    kind = ctx.get_agent_kind(record)
    if not kind.answer_keys:
        raise MngrError(f"{record.kind} asks for nothing that could be answered so", "send it a message")
    said = kind.answer_keys[str(answer)]
    return kind.build_answer(said) if isinstance(kind, CodingAgentKind) else kind.delivery(record, said)


def _start_agent(ctx: Context, record: AgentRecord) -> None:
    from mngr.agents.lifecycle.start import start_targets

    (started,) = start_targets(ctx, [record.id])
    if not started.ok:
        raise MngrError(started.error or "it could not be started", started.hint)


def queue_first_message(
    ctx: Context,
    host: BatchedHost,
    record: AgentRecord,
    text: str,
    limit: float,
    done: Callable[[Outcome], None],
) -> None:
    """The first message to an agent that is being started, with what comes next; `done` hears what came of it."""
    try:
        delivery = ctx.get_agent_kind(record).delivery(record, text)
        reject_slash_command(delivery)
    except MngrError as error:
        done(make_failed_outcome(record.name, error, record.id))
        return

    def check(answer: ProcessResult) -> None:
        try:
            _check_proof(host.inner, record, delivery, limit, answer)
        except MngrError as error:
            done(make_failed_outcome(record.name, error, record.id))
        else:
            extra = {"delivered": True, "proof": delivery.proof}
            done(Outcome(id=record.id, name=record.name, extra=extra))

    host.run_later(_build_send_argv(host, record, delivery, limit), check, stdin=delivery.text.encode())


def _deliver(host: Host, record: AgentRecord, delivery: Delivery, limit: float) -> None:
    """Send and wait for the proof; raises when there is none."""
    words = _build_send_argv(host, record, delivery, limit)
    answer = host.run(words, stdin=delivery.text.encode(), timeout=3 * limit + 30.0)
    _check_proof(host, record, delivery, limit, answer)


def _build_send_argv(host: Host, record: AgentRecord, delivery: Delivery, limit: float) -> list[str]:
    program, directory = scripts.read_program("send.sh"), host.home.agent_dir(record.id)
    return [
        "sh",
        "-c",
        program,
        "send.sh",
        host.tmux_socket,
        directory,
        f"{math.ceil(limit)}",
        delivery.ready or "",
        f"{delivery.pause:g}",
        delivery.arrival_marker or "",
        delivery.pending_text,
        delivery.clear_keys,
        delivery.empty_line_patterns,
        delivery.text if delivery.is_key else "",
        delivery.inbox_dir,
        delivery.dialog_pattern,
        delivery.prompt,
    ]


def _check_proof(host: Host, record: AgentRecord, delivery: Delivery, limit: float, answer: ProcessResult) -> None:
    """Raises when what send.sh said is no proof."""
    word, _, rest = answer.text.partition(" ")
    name = record.name
    look = f"look at its screen: mngr capture {name}"
    if word == "sent":
        kind = "answer" if delivery.is_key else "message"
        store.add_event(host, record.id, kind, proof="sent", characters=len(delivery.text))
    elif word == "unproven":
        raise TimedOut(f"{name} did not show within {limit:g}s that the message arrived; it may still", look)
    elif word == "not-ready":
        raise TimedOut(f"{name} was not ready for messages within {limit:g}s; nothing was sent", look)
    elif word == "busy":
        raise TimedOut(f"others were sending to {name} for {limit:g}s; nothing was sent", "try again")
    elif word == "not-running":
        raise MngrError(f"{name} ended before the message arrived", f"see why: mngr explain {name}")
    elif word != "proven":
        raise MngrError(f"{name}: tmux could not send the message: {rest or answer.error_line}", "see: mngr doctor")


def _wait_for_turn_end(ctx: Context, outcomes: list[Outcome], timeout: float | None) -> list[Outcome]:
    """The outcomes with the state each agent had when its turn ended."""
    from mngr.agents.inspect.wait import wait_for_agents

    sent = [o.id for o in outcomes if o.ok and o.id is not None]
    ended = {o.id: o for o in wait_for_agents(ctx, sent, timeout=timeout)}
    return [
        o.replace(
            ok=end.ok, error=end.error, hint=end.hint, exit_code=end.exit_code, extra={**o.extra, **end.extra}
        )
        if (end := ended.get(o.id)) and o.ok
        else o
        for o in outcomes
    ]  # fmt: skip
