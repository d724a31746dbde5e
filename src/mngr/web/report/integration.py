"""Renders the integration of a run: merged changes with their evidence, and excluded changes with reasons."""

from __future__ import annotations

from collections.abc import Sequence

from mngr.base.size_format import format_count
from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.changes.integration_record import (
    BranchCommit,
    CheckResult,
    ExcludedChange,
    Integration,
    SuiteCounts,
    describe_resolver,
)
from mngr.tmr.changes.list_exclusions import ExcludedGroup
from mngr.tmr.verify.red_green import RedGreenProof
from mngr.web.html_text import (
    escape_long,
    escape_plain,
    escape_with_code,
    join_limited,
    render_chip,
    render_folded,
    render_list,
)
from mngr.web.report.receipt import SAME_REASON_TEXTS, render_findings, render_proof_outcome
from mngr.web.report.report_data import ReportFacts, ReportTask

_MAX_LISTED = 12  # The most tasks or tests to name for one change.
_MAX_LISTED_OUTCOMES = 200  # The most tests with one outcome to name.
_MAX_OPEN_CHANGES = 10  # A commit with more changes shows them folded.
_KIND_LABELS = {"fix": "fix", "flagged": "needs review", "test": "tests and docs"}


def render_integration(facts: ReportFacts) -> str:
    """Return the commits of the branch with their changes, and the excluded changes.

    Before the integration, return the changes that could be merged, or nothing.
    """
    renderer = _ChangeRenderer(facts)
    if facts.integration is None:
        candidates = [renderer.render_change(change.id) for change in facts.changes]
        branch = _render_numbered("change", " ready to merge", candidates, "ol")
    else:
        branch = renderer.render_branch(facts.integration)
    reasons = [renderer.render_excluded_group(group) for group in facts.excluded_groups]
    problems = [f'<p class="note">{escape_long(problem, 500)}</p>' for problem in facts.problems]
    return (
        "".join(problems)
        + branch
        + _render_numbered("reason", " why tasks have no change in the branch", reasons, "ul")
    )


def _render_numbered(noun: str, rest_of_title: str, items: Sequence[str], tag: str) -> str:
    """Return a list below its title, which begins with the number of items; nothing without items."""
    if not items:
        return ""
    plural = "s" if len(items) > 1 else ""
    return f"<h3>{len(items)} {noun}{plural}{rest_of_title}</h3>{render_list(items, 'changes', tag)}"


# The branch and its tests


def _render_verdict(integration: Integration) -> str:
    """Return the branch, and the results of its tests and other checks."""
    commit = integration.delivered or integration.head
    results = [_describe_check(check) for check in integration.checks]
    if integration.tests is not None:
        results.insert(0, _describe_test_results(integration.tests))
    if integration.open:
        results.append(f"<b>{format_count(integration.open, 'task')} not finished</b>")
    red_tests = [failing.test for failing in integration.regressions]
    return (
        f"<p>{_render_verdict_chip(integration)} <code>{escape_plain(integration.branch, 200)}</code> "
        f'<code>{escape_plain(commit[:10])}</code> <span class="quiet">{" · ".join(results)}</span></p>'
        + _render_tests("regressions: these tests passed before and fail now", red_tests)
        + _render_tests(
            "still failing: these tests failed before, and no change repairs them", integration.still_failing
        )
        + _render_tests("flaky: these tests passed in some runs and failed in others", integration.flaky)
    )


def _render_verdict_chip(integration: Integration) -> str:
    """Return the verdict. A branch with failing tests is never shown as passing."""
    if integration.verdict == "green" and integration.still_failing:
        return render_chip("note", "no regressions")
    label = {"green": "all tests pass", "red": "regressions", "empty": "nothing to merge"}.get(integration.verdict)
    return render_chip(integration.verdict, label)


def _describe_test_results(counts: SuiteCounts) -> str:
    """Return how many tests of the branch pass."""
    fixed_note = f", {len(counts.green)} fixed" if counts.green else ""
    skipped_note = f", {counts.skipped} skipped" if counts.skipped else ""
    return f"{counts.passed} of {counts.all} tests pass{fixed_note}{skipped_note}"


def _describe_check(check: CheckResult) -> str:
    name = escape_plain(check.name, 40)
    if check.ok:
        return f"{name} check passes"
    return f"{name} check <b>fails, and passed before</b>" if check.was_ok else f"{name} check fails, as before"


def _render_tests(label: str, tests: Sequence[str]) -> str:
    """Return the names of failing tests, which are visible at once."""
    if not tests:
        return ""
    names = f'<p class="why">{_render_names(tests, _MAX_LISTED_OUTCOMES)}</p>'
    return render_folded(f"{len(tests)} {label}", names, is_open=True)


def _render_names(names: Sequence[str], max_names: int = _MAX_LISTED) -> str:
    return join_limited([f"<code>{escape_plain(name, 300)}</code>" for name in names], max_names)


class _ChangeRenderer:
    """Renders changes, with links to the tasks that made them."""

    def __init__(self, facts: ReportFacts) -> None:
        self._tasks = {task.slug: task for task in facts.tasks}
        self._proofs = {task.slug: task.receipt.proofs for task in facts.tasks if task.receipt is not None}
        self._changes = {change.id: change for change in facts.changes}

    def render_branch(self, integration: Integration) -> str:
        """Return the verdict on the branch, its commits, and the changes that it does not contain."""
        verdict = _render_verdict(integration) if integration.branch else ""
        commits = [self._render_commit(integration, commit) for commit in integration.commits]
        excluded = [self._render_excluded(change) for change in integration.excluded]
        commit_list = _render_numbered("commit", ", in this order", commits, "ol")
        return verdict + commit_list + _render_numbered("change", " excluded", excluded, "ul")

    def _render_commit(self, integration: Integration, commit: BranchCommit) -> str:
        """Return one commit of the branch with its changes; a single change comes with its evidence."""
        head = (
            f"<code>{escape_plain(commit.commit[:10])}</code> {render_chip(commit.kind, _KIND_LABELS.get(commit.kind))} "
            f"<b>{escape_with_code(commit.subject, 300)}</b>"
        )
        change = self._changes.get(commit.changes[0]) if len(commit.changes) == 1 else None
        if change is not None and commit.kind != "test":
            about = f'<code class="id">{escape_plain(change.id, 40)}</code> <span class="quiet">{self._describe_change(change)}</span>'
            return f"{head} {about}{self._render_evidence(integration, commit, change)}"
        body = render_list([self.render_change(change_id) for change_id in commit.changes], "changes")
        if len(commit.changes) > _MAX_OPEN_CHANGES:
            body = render_folded(format_count(len(commit.changes), "change"), body)
        return head + body

    def render_change(self, change_id: str) -> str:
        """Return one change: its size, the tests it fixes, its agents and its tasks."""
        id_html = f'<code class="id">{escape_plain(change_id, 40)}</code>'
        change = self._changes.get(change_id)
        if change is None:
            return id_html
        kind = "flagged" if change.flagged else change.kind
        chip = "" if kind == "test" else render_chip(kind, _KIND_LABELS.get(kind))
        title = escape_with_code(change.title, 300)
        return f'{id_html} {chip} {title} <span class="quiet">{self._describe_change(change)}</span>'

    def _describe_change(self, change: Change) -> str:
        parts = [f"+{change.size.added} −{change.size.removed}"]
        if change.fixed_tests:
            parts.append(f"fixes {format_count(len(change.fixed_tests), 'test')}")
        if change.agent_kinds:
            parts.append(f"made by {escape_plain(', '.join(change.agent_kinds), 100)}")
        if len(change.agents) > 1:
            parts.append(f"{len(change.agents)} agents made the same edit")
        if change.tasks:
            parts.append(self._render_tasks(change.tasks))
        return " · ".join(parts)

    def _render_evidence(self, integration: Integration, commit: BranchCommit, change: Change) -> str:
        """Return the evidence for a change: tests, proof, conflicts, rank and findings."""
        lines = []
        if commit.fixed_tests:
            lines.append(f"fixes {_render_names(commit.fixed_tests)}")
        proof = self._find_proof(change)
        if proof is not None:
            lines.append(_describe_proof(proof))
        for conflict in integration.resolved:
            if conflict.change == change.id:
                lines.append(
                    f"conflicted with {_render_names(conflict.others)}; {escape_plain(describe_resolver(conflict.by), 40)} resolved the conflict"
                )
        for order in integration.advised_orders:
            if order.changes[:1] == [change.id]:
                agent, reason = escape_plain(order.agent, 100), escape_long(order.reason, 500)
                lines.append(
                    f"the evidence for {len(order.changes)} fixes is equally good; {agent} ranks this one first: {reason}"
                )
        paragraphs = "".join(f'<p class="why">{line}</p>' for line in lines)
        return paragraphs + render_folded(f"findings: {len(change.findings)}", render_findings(change.findings))

    def _find_proof(self, change: Change) -> RedGreenProof | None:
        """Return the proof of the first receipt that says whether the change is needed, or None."""
        for author in change.made_by:
            for proof in self._proofs.get(author.task, []):
                if proof.is_needed is not None and not set(author.commits).isdisjoint(proof.fixes):
                    return proof
        return None

    def _render_excluded(self, excluded: ExcludedChange) -> str:
        """Return an excluded change with the reason and the evidence."""
        html = f'{self.render_change(excluded.change)}<p class="why">{escape_long(excluded.reason, 2000)}</p>'
        proof = excluded.proof
        if proof is None:
            return html
        outcomes = f"{render_chip(proof.before)} → {render_chip(proof.after)}"
        return f'{html}<p class="why"><code>{escape_plain(proof.test, 300)}</code> {outcomes}</p>'

    def render_excluded_group(self, group: ExcludedGroup) -> str:
        """Return one reason why tasks have nothing to merge."""
        tasks = self._render_tasks(group.tasks)
        count = format_count(group.count, "task")
        return f'{count}: {escape_long(group.reason, 500)} <span class="quiet">{tasks}</span>'

    def _render_tasks(self, slugs: Sequence[str]) -> str:
        return join_limited([self._render_task_link(slug) for slug in slugs], _MAX_LISTED)

    def _render_task_link(self, slug: str) -> str:
        task = self._tasks.get(slug)
        return escape_plain(slug, 80) if task is None else render_task_link(task)


def render_task_link(task: ReportTask) -> str:
    """Return a link from the first page to the page of a task."""
    return f'<a href="tasks/{escape_plain(task.slug)}.html">{escape_plain(task.short_title, 80)}</a>'


def _describe_proof(proof: RedGreenProof) -> str:
    without = f"{render_proof_outcome(proof.without)} {SAME_REASON_TEXTS[proof.is_same_reason]}".rstrip()
    return f"before {render_proof_outcome(proof.before)} without the fix {without} with the fix {render_chip('pass')}"
