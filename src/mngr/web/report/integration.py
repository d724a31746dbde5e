"""Renders the integration of a run: merged changes with their evidence, and excluded changes with reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mngr.web.html_text import escape_long, escape_plain, escape_with_code, render_chip
from mngr.web.report.receipt import render_findings
from mngr.web.report.report_data import ReportFacts, ReportTask, list_dicts

Rows = Sequence[dict[str, Any]]


_MAX_LISTED = 12  # The most tasks or tests to name for one change.
_MAX_OPEN_CHANGES = 10  # A commit with more changes shows them folded.
_KIND_LABELS = {"fix": "fix", "flagged": "look at it", "test": "tests and texts"}


def render_integration(facts: ReportFacts) -> str:
    """Return the commits of `integration.json` with their changes, and the excluded changes.

    Before the integration, return the changes of `changes.json` that could be merged, or nothing.
    """
    data = facts.integration if isinstance(facts.integration, dict) else {}
    changes_data = facts.changes if isinstance(facts.changes, dict) else {}
    renderer = _ChangeRenderer(facts.tasks, list_dicts(changes_data.get("changes")), data)
    excluded = list_dicts(data.get("left_out"))
    reasons = list_dicts(changes_data.get("causes"))
    parts = [
        _render_verdict(data) if data.get("branch") else "",
        _render_list(
            "commits, in this order",
            [renderer.render_commit(row) for row in list_dicts(data.get("commits"))],
            "ol",
        ),
        ""
        if data
        else _render_list(
            "changes to merge", [renderer.render_change(str(row.get("id"))) for row in renderer.rows], "ol"
        ),
        _render_list("changes put aside", [renderer.render_excluded(row) for row in excluded], "ul"),
        _render_list("reasons why work was not taken", [renderer.render_reason(row) for row in reasons], "ul"),
    ]
    return "".join(parts)


def _render_verdict(data: dict[str, Any]) -> str:
    """Return the branch, and the results of its tests and other checks."""
    branch_html = f"<code>{escape_plain(data.get('branch'), 200)}</code> <code>{escape_long(str(data.get('delivered') or data.get('head') or '')[:10])}</code>"
    results = [_describe_test_results(data)] + [
        f"{escape_plain(row.get('name'), 40)} {'holds' if row.get('ok') else 'fails, as before' if row.get('was_ok') is False else '<b>fails</b>'}"
        for row in list_dicts(data.get("checks"))
    ]
    if data.get("open"):
        results.append(f"<b>{escape_plain(data['open'], 12)} tasks not settled yet</b>")
    test_groups = {
        "red": ("red that were not", [row.get("test") for row in list_dicts(data.get("red"))]),
        "red_before": ("red before and still", data.get("red_before")),
        "flaky": ("seen both ways", data.get("flaky")),
    }
    folded = "".join(
        f"<details{' open' if key == 'red' else ''}><summary>{len(tests)} {label}</summary>"
        f'<p class="why">{_render_names(tests, 200)}</p></details>'
        for key, (label, tests) in test_groups.items()
        if isinstance(tests, list) and tests
    )
    return f'<p>{render_chip(data.get("verdict"))} {branch_html} <span class="quiet">{" · ".join(filter(None, results))}</span></p>{folded}'


def _describe_test_results(data: dict[str, Any]) -> str:
    """Return how many tests of the branch pass."""
    tests = data.get("tests")
    if not isinstance(tests, dict):
        return ""
    newly_green = len(tests.get("green") or ())
    newly_green_note = f", {newly_green} of them red before" if newly_green else ""
    return f"{escape_plain(tests.get('pass'), 12)} of {escape_plain(tests.get('all'), 12)} tests pass{newly_green_note}"


def _render_names(names: Any, max_names: int = _MAX_LISTED) -> str:
    texts = [str(name) for name in names] if isinstance(names, list) else []
    more = f" and {len(texts) - max_names} more" if len(texts) > max_names else ""
    return ", ".join(f"<code>{escape_plain(name, 300)}</code>" for name in texts[:max_names]) + more


def _render_list(title: str, items: Sequence[str], kind: str) -> str:
    if not items:
        return ""
    text = "".join(f"<li>{item}</li>" for item in items)
    head = (
        title
        if len(items) > 1
        else title.replace("commits", "commit").replace("changes", "change").replace("reasons", "reason")
    )
    return f'<h3>{len(items)} {head}</h3><{kind} class="changes">{text}</{kind}>'


class _ChangeRenderer:
    """Renders changes, with links to the tasks that made them."""

    def __init__(self, tasks: Sequence[ReportTask], changes: Rows, data: dict[str, Any]) -> None:
        self.rows = changes
        self._tasks = {task.slug: task for task in tasks}
        self._changes = {str(row.get("id")): row for row in changes}
        self._ranked, self._resolved = list_dicts(data.get("ranked")), list_dicts(data.get("resolved"))

    def render_commit(self, row: dict[str, Any]) -> str:
        """Return one commit of the branch with its changes; a single change comes with its evidence."""
        ids = [str(change_id) for change_id in row.get("changes") or ()]
        kind = str(row.get("kind"))
        head = f"<code>{escape_long(str(row.get('commit') or '')[:10])}</code> {render_chip(kind, _KIND_LABELS.get(kind))} <b>{escape_with_code(row.get('subject'), 300)}</b>"
        if len(ids) == 1 and kind != "test":
            change = self._changes.get(ids[0], {})
            about = f' <code class="id">{escape_plain(ids[0], 40)}</code> <span class="quiet">{self._describe_change(change)}</span>'
            return head + about + self._render_evidence(row, change)
        items = "".join(f"<li>{self.render_change(change_id)}</li>" for change_id in ids)
        body = f'<ul class="changes">{items}</ul>'
        if len(ids) > _MAX_OPEN_CHANGES:
            body = f"<details><summary>{len(ids)} changes</summary>{body}</details>"
        return head + (body if ids else "")

    def render_change(self, change_id: str) -> str:
        """Return one change: its size, the tests it turns green, and its tasks."""
        row = self._changes.get(change_id, {})
        kind = "flagged" if row.get("flagged") else str(row.get("kind") or "")
        chip = render_chip(kind, _KIND_LABELS.get(kind)) if kind != "test" else ""
        return (
            f'<code class="id">{escape_plain(change_id, 40)}</code> {chip} {escape_with_code(row.get("title"), 300)} '
            f'<span class="quiet">{self._describe_change(row)}</span>'
        )

    def _describe_change(self, row: dict[str, Any]) -> str:
        size = row.get("size")
        parts = []
        if isinstance(size, dict) and size:
            parts.append(f"+{escape_plain(size.get('added', 0), 12)} −{escape_plain(size.get('removed', 0), 12)}")
        if row.get("turned"):
            parts.append(f"turns {len(row['turned'])} green")
        if isinstance(row.get("agents"), list) and len(row["agents"]) > 1:
            parts.append(f"found by {len(row['agents'])} agents")
        return " · ".join(filter(None, [*parts, self._render_tasks(row.get("tasks"))]))

    def _render_evidence(self, commit: dict[str, Any], change: dict[str, Any]) -> str:
        """Return the evidence for a change: tests, proof, conflicts, rank and findings."""
        change_id = change.get("id")
        lines = []
        if tests := commit.get("turned"):
            lines.append(f"turns green: {_render_names(tests)}")
        if proof := self._find_proof(change):
            is_same_reason = proof.get("is_same_reason")
            reason = (
                "" if is_same_reason is None else " for the same reason" if is_same_reason else " for another reason"
            )
            lines.append(
                f"before {render_chip(proof.get('before') or '?')} without it {render_chip(proof.get('without') or '?')}{reason} with it {render_chip('pass')}"
            )
        for row in self._resolved:
            if row.get("change") == change_id:
                lines.append(f"merged with {_render_names(row.get('others'))} by {escape_plain(row.get('by'), 40)}")
        for row in self._ranked:
            if isinstance(row.get("changes"), list) and row["changes"][:1] == [change_id]:
                lines.append(
                    f"first of {len(row['changes'])} that are equal by evidence, says {escape_plain(row.get('agent'), 100)}: {escape_long(row.get('reason'), 500)}"
                )
        findings = list_dicts(change.get("findings"))
        findings_html = (
            f"<details><summary>what was found: {len(findings)}</summary>{render_findings(findings)}</details>"
            if findings
            else ""
        )
        return "".join(f'<p class="why">{line}</p>' for line in lines) + findings_html

    def _find_proof(self, change: dict[str, Any]) -> dict[str, Any] | None:
        """Return the proof of the first receipt that says whether the change is needed, or None."""
        for author in list_dicts(change.get("made_by")):
            task = self._tasks.get(str(author.get("task")))
            commits = set(map(str, author.get("commits") or ()))
            for row in list_dicts(task.receipt.get("proofs")) if task is not None and task.receipt else ():
                if row.get("is_needed") is not None and commits.intersection(map(str, row.get("fixes") or ())):
                    return row
        return None

    def render_excluded(self, row: dict[str, Any]) -> str:
        """Return an excluded change with the reason and the evidence."""
        change_id = row.get("change") or row.get("id")
        title = self.render_change(str(change_id)) if change_id else self._render_tasks([row.get("task")])
        proof = row.get("proof")
        proof_html = ""
        if isinstance(proof, dict):
            proof_html = f'<p class="why"><code>{escape_plain(proof.get("test"), 300)}</code> {render_chip(proof.get("before"))} → {render_chip(proof.get("after"))}</p>'
        return f'{title}<p class="why">{escape_long(row.get("reason"), 2000)}</p>{proof_html}'

    def render_reason(self, row: dict[str, Any]) -> str:
        """Return one reason why tasks have nothing to merge."""
        return f'<b>{escape_plain(row.get("count"), 12)}×</b> {escape_long(row.get("reason"), 500)} <span class="quiet">{self._render_tasks(row.get("tasks"))}</span>'

    def _render_tasks(self, slugs: Any) -> str:
        names = [str(slug) for slug in slugs] if isinstance(slugs, list) else []
        more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
        return ", ".join(self._render_task_link(slug) for slug in names[:_MAX_LISTED]) + more

    def _render_task_link(self, slug: str) -> str:
        task = self._tasks.get(slug)
        if task is None:
            return escape_plain(slug, 80)
        return f'<a href="tasks/{escape_plain(slug)}.html">{escape_plain(task.title.rpartition("::")[2], 80)}</a>'
