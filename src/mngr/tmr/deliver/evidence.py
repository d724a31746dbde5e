"""Renders the evidence for a change so that it can be read without the author's machine."""

from __future__ import annotations

from mngr.base.size_format import format_count
from mngr.tmr.changes.collect_changes import Change, ChangeAuthor
from mngr.tmr.deliver.markdown import (
    format_code,
    format_details,
    format_excerpt,
    format_list,
    format_text,
)
from mngr.tmr.deliver.pull_request_facts import PullRequestFacts
from mngr.tmr.verify.receipt import find_receipt
from mngr.tmr.verify.red_green import RedGreenProof

_MAX_LINES = 12  # lines of a transcript
_SAME_REASON_TEXTS = {None: "", True: " for the same reason", False: " for a different reason"}


def format_agents(change: Change) -> str:
    """Return the kinds of the agents that made a change."""
    return f"made by {format_list(change.agent_kinds, 3, 40)}" if change.agent_kinds else "made by an unknown agent"


def format_authors(facts: PullRequestFacts, change: Change, max_tasks: int) -> str:
    """Return which agents made a change, for which tasks, and what mngr saw when it re-ran the first one's claim."""
    authors = change.made_by
    if not authors:
        return "made by an unknown agent, no receipt"
    tasks = ", ".join(_link_task(facts, author.task) for author in authors[:max_tasks])
    more = f" and {len(authors) - max_tasks} more" if len(authors) > max_tasks else ""
    text = f"{format_agents(change)} for {'task' if len(authors) == 1 else 'tasks'} {tasks}{more}"
    variant_count = sum(bool(author.variant) for author in authors)
    if variant_count:
        text += f", {variant_count} of them written differently"
    return f"{text}; {_format_runs(authors[0])}"


def _link_task(facts: PullRequestFacts, slug: str) -> str:
    """Return a task, with a link to its page if the report was uploaded."""
    url = facts.integration.report_url
    return f"[{format_code(slug, 80)}]({url}/tasks/{slug}.html)" if url else format_code(slug, 80)


def _format_runs(author: ChangeAuthor) -> str:
    passed, _, count = author.runs.partition("/")
    return f"mngr re-ran the test, and {format_text(passed)} of {format_text(count)} runs passed"


def format_result(facts: PullRequestFacts, change: Change, level: int) -> str:
    """Return how the test ended before the change and with it, from the receipt's proof or from the baseline."""
    proof = _find_proof(facts, change)
    if proof is not None:
        return _format_proof(proof, level)
    failures = [
        facts.baseline_failures[author.title] for author in change.made_by if author.title in facts.baseline_failures
    ]
    if not failures:
        return ""
    reason = f": {format_code(failures[0], 160)}" if level == 0 else ""
    return f"the test failed before{reason}"


def _find_proof(facts: PullRequestFacts, change: Change) -> RedGreenProof | None:
    """Return the first proof in the receipts of the change's authors."""
    checks = {task.task.slug: task.check for task in facts.tasks}
    for author in change.made_by:
        receipt = find_receipt(checks.get(author.task))
        for proof in receipt.proofs if receipt is not None else ():
            if not set(proof.fixes).isdisjoint(author.commits):
                return proof
    return None


def _format_proof(proof: RedGreenProof, level: int) -> str:
    if proof.is_needed is None:
        return f"none, {format_text(proof.reason, 120)}"
    before = format_text(proof.before or "no such test")
    without = format_text(proof.without or "not run")
    line = f"before: {before}; without the fix: {without}{_SAME_REASON_TEXTS[proof.is_same_reason]}; with it: pass"
    failure = format_code(proof.without_why or proof.before_why, 120) if level == 0 else ""
    return f"{line}. It failed with {failure}" if failure else line


def render_transcript(facts: PullRequestFacts, change: Change) -> list[str]:
    """Return the lines of a collapsed block with the end of the transcript, or nothing without a transcript."""
    slug = next((author.task for author in change.made_by if author.task in facts.transcripts), "")
    excerpt = format_excerpt(facts.transcripts.get(slug, ""), _MAX_LINES)
    if not excerpt:
        return []
    title = f"what mngr saw when it re-ran the test (last {format_count(len(excerpt) - 2, 'line')})"
    return format_details(title, "\n".join(excerpt)).split("\n")
