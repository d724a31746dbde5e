"""Sends messages by typing them into agents' terminals, and proves that they arrived."""

from __future__ import annotations

import math
import time

from mngr.agents.inspect import list as listing
from mngr.agents.inspect.for_each_agent import LIVE_STATES, make_failed_outcome, run_on_targets
from mngr.agents.lifecycle.choose_and_start_hosts import resolve_and_start_hosts
from mngr.base import shell
from mngr.base.errors import MngrError, TimedOut
from mngr.base.model import Outcome, Struct
from mngr.host import record_store, scripts
from mngr.kinds.coding_agent import CodingAgentKind
from mngr.kinds.delivery_plan import check_text, reject_slash_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.agents.inspect.list import ObservedAgent
    from mngr.base.model import AgentRecord
    from mngr.base.shell import ProcessResult
    from mngr.host.protocol import Host
    from mngr.kinds.delivery_plan import Delivery

DELIVERY_SECONDS = 30.0  # A message must arrive within this time.
MAX_HINT_CHARACTERS = 500  # A hint repeats the text of a message up to this length.
RETRY_SECONDS = 1.0  # After this time mngr repeats an answer that had no effect.


class Message(Struct):
    """A text for agents, or the answer to their permission questions."""

    text: str | None
    answer: str | None = None  # `allow` or `deny`, when there is no text
    raw: bool = False  # Send the text even if it is a slash command or a question is on the screen.


def send_message(
    ctx: Context,
    names: list[str],
    message: Message,
    *,
    start: bool = False,
    wait: bool = False,
    timeout: float | None = None,
) -> list[Outcome]:
    """Deliver the message to all agents in parallel and return the outcomes.

    Each outcome has `delivered` and `proof`, and with `wait` also the `state` after the turn.
    """
    if message.text is not None:
        check_text(message.text)
    started_at = time.monotonic()
    delivery_timeout = DELIVERY_SECONDS if timeout is None else timeout

    def send_one(target: ObservedAgent, record: AgentRecord) -> Outcome:
        if message.text is None:
            delivery = _make_permission_answer(ctx, target, record, message.answer)
        else:
            delivery = ctx.get_agent_kind(record).delivery(record, message.text)
        if not message.raw:
            reject_slash_command(delivery)
            _check_accepts_text(target, record, delivery)
        if wait and delivery.proof == "sent":
            hint = f"leave out --wait, or wait until the program ends: mngr wait {record.name} --state DONE,FAILED"
            raise MngrError(
                f"--wait does not work with {record.name}: an agent of kind {record.kind} has no turns; mngr sent nothing",
                hint,
            )
        if target.state.state not in LIVE_STATES:
            if not start:
                hint = _suggest_start(record.name, message, wait)
                raise MngrError(f"{record.name} is not running (state: {target.state.state})", hint)
            _start_agent(ctx, record)
        elif target.state.reason == "login":
            from mngr.agents.launch.launch import refresh_login

            refresh_login(ctx, target.host, record)
        _deliver(target.host, record, delivery, delivery_timeout)
        if delivery.is_key:
            _wait_until_answered(ctx, target, record, delivery, delivery_timeout)
        return Outcome(id=record.id, name=record.name, extra={"delivered": True, "proof": delivery.proof})

    not_delivered = {"delivered": False, "proof": None}
    observed = resolve_and_start_hosts(ctx, names) if start else None
    outcomes = [
        outcome if outcome.extra else outcome.replace(extra=not_delivered)
        for outcome in run_on_targets(ctx, names, send_one, 16, observed)
    ]
    if not wait:
        return outcomes
    if timeout is None:
        return _wait_for_turn_end(ctx, outcomes, None)
    elapsed = time.monotonic() - started_at
    return _wait_for_turn_end(ctx, outcomes, max(0.0, timeout - elapsed))


def _suggest_start(name: str, message: Message, wait: bool) -> str:
    """Return the command that starts the agent and sends the message. It repeats only a short text."""
    text = message.text or ""
    if len(text) > MAX_HINT_CHARACTERS or not text.isprintable():
        return f"start it, then send the message again: mngr start {name}"
    words = ["mngr", "message", name, "-m", text, "--start"]
    words += ["--raw"] * message.raw + ["--wait"] * wait
    return f"start it and send the message: {shell.join(words)}"


def _check_accepts_text(observed: ObservedAgent, record: AgentRecord, delivery: Delivery) -> None:
    """Raise MngrError when a question is on the screen, because a text would choose one of its answers."""
    reason = observed.state.reason
    if observed.state.state == "WAITING" and reason in delivery.blocking_reasons:
        from mngr.agents.inspect.explain import suggest_answer

        message = f"{record.name} is waiting for an answer on its screen ({reason}); mngr sent nothing"
        raise MngrError(message, suggest_answer(reason, record.name))


def _wait_until_answered(
    ctx: Context, observed: ObservedAgent, record: AgentRecord, delivery: Delivery, timeout: float
) -> None:
    """Wait until the question is gone. Repeat the key, because the program may ignore one that comes too early."""
    started_at = last_press = time.monotonic()
    while (agents := listing.observe_host(ctx, observed.host, [record.id])) and agents[0].state == observed.state:
        now = time.monotonic()
        if now > started_at + timeout:
            hint = f"see its screen: mngr capture {record.name}"
            raise TimedOut(f"{record.name} still shows its question {timeout:g}s after the answer", hint)
        if now > last_press + RETRY_SECONDS:
            _deliver(observed.host, record, delivery, timeout)
            last_press = now
        time.sleep(0.05)


def _make_permission_answer(ctx: Context, observed: ObservedAgent, record: AgentRecord, answer: str | None) -> Delivery:
    """Return the delivery that answers a permission question. Raise MngrError when the agent does not ask."""
    state = observed.state
    if (state.state, state.reason) != ("WAITING", "permission"):
        text = state.state + (f", {state.reason}" if state.reason else "")
        message = f"{record.name} is not waiting for a permission (state: {text})"
        raise MngrError(message, f"see why: mngr explain {record.name}")
    kind = ctx.get_agent_kind(record)
    if not kind.answer_keys:
        raise MngrError(
            f"--allow and --deny do not work with agents of kind {record.kind}",
            f"send a message instead: mngr message {record.name} -m TEXT",
        )
    text = kind.answer_keys[str(answer)]
    return kind.build_answer(text) if isinstance(kind, CodingAgentKind) else kind.delivery(record, text)


def _start_agent(ctx: Context, record: AgentRecord) -> None:
    """Start the agent, or raise MngrError."""
    from mngr.agents.lifecycle.start import start_targets

    (outcome,) = start_targets(ctx, [record.id])
    if not outcome.ok:
        raise MngrError(outcome.error or f"{record.name} could not be started", outcome.hint)


class QueuedMessage:
    """A message that goes to the host together with the next command. It has an outcome after that command."""

    def __init__(self, record: AgentRecord) -> None:
        self._record = record
        self.outcome: Outcome | None = None

    def set_delivered(self, proof: str) -> None:
        extra = {"delivered": True, "proof": proof}
        self.outcome = Outcome(id=self._record.id, name=self._record.name, extra=extra)

    def set_failed(self, error: MngrError) -> None:
        self.outcome = make_failed_outcome(self._record.name, error, self._record.id)


def queue_message(ctx: Context, host: Host, record: AgentRecord, text: str, timeout: float) -> QueuedMessage | None:
    """Queue a message to an agent that is being started. Return None if the host does not collect commands."""
    from mngr.host.batched_host import BatchedHost

    if not isinstance(host, BatchedHost):
        return None
    message = QueuedMessage(record)
    try:
        delivery = ctx.get_agent_kind(record).delivery(record, text)
        reject_slash_command(delivery)
    except MngrError as error:
        message.set_failed(error)
        return message

    def report_result(result: ProcessResult) -> None:
        try:
            _check_proof(host.inner, record, delivery, timeout, result)
        except MngrError as error:
            message.set_failed(error)
        else:
            message.set_delivered(delivery.proof)

    host.run_later(_build_send_argv(host, record, delivery, timeout), report_result, stdin=delivery.text.encode())
    return message


def _deliver(host: Host, record: AgentRecord, delivery: Delivery, timeout: float) -> None:
    """Send the message and wait for the proof. Raise an error when there is none."""
    argv = _build_send_argv(host, record, delivery, timeout)
    result = host.run(argv, stdin=delivery.text.encode(), timeout=3 * timeout + 30.0)
    _check_proof(host, record, delivery, timeout, result)


def _build_send_argv(host: Host, record: AgentRecord, delivery: Delivery, timeout: float) -> list[str]:
    """Return the command that runs send_message.sh for this delivery."""
    program, directory = scripts.read_program("send_message.sh"), host.home.agent_dir(record.id)
    return [
        "sh",
        "-c",
        program,
        "send_message.sh",
        host.tmux_socket,
        directory,
        f"{math.ceil(timeout)}",
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


def _check_proof(host: Host, record: AgentRecord, delivery: Delivery, timeout: float, result: ProcessResult) -> None:
    """Raise an error when the output of send_message.sh does not prove the delivery."""
    word, _, details = result.text.partition(" ")
    name = record.name
    capture_hint = f"see its screen: mngr capture {name}"
    if word == "sent":
        kind = "answer" if delivery.is_key else "message"
        record_store.add_event(host, record.id, kind, proof="sent", characters=len(delivery.text))
    elif word == "unproven":
        raise TimedOut(
            f"{name} did not confirm within {timeout:g}s that the message arrived; it may still arrive", capture_hint
        )
    elif word == "not-ready":
        raise TimedOut(f"{name} was not ready for messages within {timeout:g}s; mngr sent nothing", capture_hint)
    elif word == "busy":
        raise TimedOut(
            f"mngr was still sending other messages to {name} after {timeout:g}s; mngr sent nothing",
            f"send the message again: mngr message {name} -m TEXT",
        )
    elif word == "not-running":
        raise MngrError(f"{name} ended before the message arrived", f"see why: mngr explain {name}")
    elif word != "proven":
        raise MngrError(
            f"{name}: tmux could not send the message: {details or result.error_line}",
            f"check the host: mngr doctor @{host.name}",
        )


def _wait_for_turn_end(ctx: Context, outcomes: list[Outcome], timeout: float | None) -> list[Outcome]:
    """Wait for the agents' turns to end and return the outcomes with the states after them."""
    from mngr.agents.inspect.wait import wait_for_agents

    agent_ids = [outcome.id for outcome in outcomes if outcome.ok and outcome.id is not None]
    wait_outcomes = {outcome.id: outcome for outcome in wait_for_agents(ctx, agent_ids, timeout=timeout)}
    return [
        outcome.replace(
            ok=wait_outcome.ok,
            error=wait_outcome.error,
            hint=wait_outcome.hint,
            exit_code=wait_outcome.exit_code,
            extra={**outcome.extra, **wait_outcome.extra},
        )
        if (wait_outcome := wait_outcomes.get(outcome.id)) and outcome.ok
        else outcome
        for outcome in outcomes
    ]
