"""What became of the run's changes: merged in which order and by which evidence, left out and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mngr.web.html_text import escape_long, escape_plain, escape_with_code, render_chip
from mngr.web.report.receipt import render_findings
from mngr.web.report.run_facts import ReportFacts, ReportTask, list_dicts

Rows = Sequence[dict[str, Any]]


_MAX_LISTED = 12  # tasks or tests that are named for one change
_MAX_OPEN_CHANGES = 10  # changes of one commit that stand open
_KIND_LABELS = {"fix": "fix", "flagged": "look at it", "test": "tests and texts"}


def render_integration(facts: ReportFacts) -> str:
    """The commits of `integration.json` in their order with the changes in each, and what was left out; before that what could
    be merged, of `changes.json`; nothing where there is neither."""
    data = facts.integration if isinstance(facts.integration, dict) else {}
    made = facts.changes if isinstance(facts.changes, dict) else {}
    named = _ChangeRenderer(facts.tasks, list_dicts(made.get("changes")), data)
    left = list_dicts(data.get("left_out"))
    causes = list_dicts(made.get("causes"))
    parts = [
        _render_verdict(data) if data.get("branch") else "",
        _render_list(
            "commits, in this order",
            [named.render_commit(row) for row in list_dicts(data.get("commits"))],
            "ol",
        ),
        ""
        if data
        else _render_list("changes to merge", [named.render_change(str(row.get("id"))) for row in named.rows], "ol"),
        _render_list("changes put aside", [named.render_excluded(row) for row in left], "ul"),
        _render_list("reasons why work was not taken", [named.render_reason(row) for row in causes], "ul"),
    ]
    return "".join(parts)


def _render_verdict(data: dict[str, Any]) -> str:
    """The branch, and how its tests and other checks stand."""
    where = f"<code>{escape_plain(data.get('branch'), 200)}</code> <code>{escape_long(str(data.get('delivered') or data.get('head') or '')[:10])}</code>"
    seen = [_describe_test_results(data)] + [
        f"{escape_plain(row.get('name'), 40)} {'holds' if row.get('ok') else 'fails, as before' if row.get('was_ok') is False else '<b>fails</b>'}"
        for row in list_dicts(data.get("checks"))
    ]
    if data.get("open"):
        seen.append(f"<b>{escape_plain(data['open'], 12)} tasks not settled yet</b>")
    names = {
        "red": ("red that were not", [row.get("test") for row in list_dicts(data.get("red"))]),
        "red_before": ("red before and still", data.get("red_before")),
        "flaky": ("seen both ways", data.get("flaky")),
    }
    folded = "".join(
        f"<details{' open' if key == 'red' else ''}><summary>{len(some)} {said}</summary>"
        f'<p class="why">{_render_names(some, 200)}</p></details>'
        for key, (said, some) in names.items()
        if isinstance(some, list) and some
    )
    return f'<p>{render_chip(data.get("verdict"))} {where} <span class="quiet">{" · ".join(filter(None, seen))}</span></p>{folded}'


def _describe_test_results(data: dict[str, Any]) -> str:
    tests = data.get("tests")
    if not isinstance(tests, dict):
        return ""
    green = len(tests.get("green") or ())
    more = f", {green} of them red before" if green else ""
    return f"{escape_plain(tests.get('pass'), 12)} of {escape_plain(tests.get('all'), 12)} tests pass{more}"


def _render_names(names: Any, most: int = _MAX_LISTED) -> str:
    some = [str(name) for name in names] if isinstance(names, list) else []
    more = f" and {len(some) - most} more" if len(some) > most else ""
    return ", ".join(f"<code>{escape_plain(name, 300)}</code>" for name in some[:most]) + more


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
    """Tasks and changes by their names."""

    def __init__(self, tasks: Sequence[ReportTask], changes: Rows, data: dict[str, Any]) -> None:
        self.rows = changes
        self._tasks = {one.slug: one for one in tasks}
        self._changes = {str(row.get("id")): row for row in changes}
        self._ranked, self._resolved = list_dicts(data.get("ranked")), list_dicts(data.get("resolved"))

    def render_commit(self, row: dict[str, Any]) -> str:
        """One of the branch, and what is in it; of a single change all that speaks for it."""
        ids = [str(name) for name in row.get("changes") or ()]
        kind = str(row.get("kind"))
        head = f"<code>{escape_long(str(row.get('commit') or '')[:10])}</code> {render_chip(kind, _KIND_LABELS.get(kind))} <b>{escape_with_code(row.get('subject'), 300)}</b>"
        if len(ids) == 1 and kind != "test":
            change = self._changes.get(ids[0], {})
            about = f' <code class="id">{escape_plain(ids[0], 40)}</code> <span class="quiet">{self._describe_change(change)}</span>'
            return head + about + self._render_evidence(row, change)
        inside = "".join(f"<li>{self.render_change(name)}</li>" for name in ids)
        body = f'<ul class="changes">{inside}</ul>'
        if len(ids) > _MAX_OPEN_CHANGES:
            body = f"<details><summary>{len(ids)} changes</summary>{body}</details>"
        return head + (body if ids else "")

    def render_change(self, name: str) -> str:
        """One change: how large it is, what it turns green, who made it."""
        row = self._changes.get(name, {})
        kind = "flagged" if row.get("flagged") else str(row.get("kind") or "")
        word = render_chip(kind, _KIND_LABELS.get(kind)) if kind != "test" else ""
        return (
            f'<code class="id">{escape_plain(name, 40)}</code> {word} {escape_with_code(row.get("title"), 300)} '
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
        """The tests that it turns green, red without it and green with it, why it comes before its equals, what was found."""
        name = change.get("id")
        lines = []
        if tests := commit.get("turned"):
            lines.append(f"turns green: {_render_names(tests)}")
        if proof := self._find_proof(change):
            same = proof.get("is_same_reason")
            reason = "" if same is None else " for the same reason" if same else " for another reason"
            lines.append(
                f"before {render_chip(proof.get('before') or '?')} without it {render_chip(proof.get('without') or '?')}{reason} with it {render_chip('pass')}"
            )
        for row in self._resolved:
            if row.get("change") == name:
                lines.append(f"merged with {_render_names(row.get('others'))} by {escape_plain(row.get('by'), 40)}")
        for row in self._ranked:
            if isinstance(row.get("changes"), list) and row["changes"][:1] == [name]:
                lines.append(
                    f"first of {len(row['changes'])} that are equal by evidence, says {escape_plain(row.get('agent'), 100)}: {escape_long(row.get('reason'), 500)}"
                )
        found = list_dicts(change.get("findings"))
        noted = (
            f"<details><summary>what was found: {len(found)}</summary>{render_findings(found)}</details>"
            if found
            else ""
        )
        return "".join(f'<p class="why">{line}</p>' for line in lines) + noted

    def _find_proof(self, change: dict[str, Any]) -> dict[str, Any] | None:
        """Red and green, by the first receipt that has it."""
        for maker in list_dicts(change.get("made_by")):
            one = self._tasks.get(str(maker.get("task")))
            commits = set(map(str, maker.get("commits") or ()))
            for row in list_dicts(one.receipt.get("proofs")) if one is not None and one.receipt else ():
                if row.get("is_needed") is not None and commits.intersection(map(str, row.get("fixes") or ())):
                    return row
        return None

    def render_excluded(self, row: dict[str, Any]) -> str:
        """A change that was not merged, and the proof."""
        name = row.get("change") or row.get("id")
        what = self.render_change(str(name)) if name else self._render_tasks([row.get("task")])
        proof = row.get("proof")
        seen = ""
        if isinstance(proof, dict):
            seen = f'<p class="why"><code>{escape_plain(proof.get("test"), 300)}</code> {render_chip(proof.get("before"))} → {render_chip(proof.get("after"))}</p>'
        return f'{what}<p class="why">{escape_long(row.get("reason"), 2000)}</p>{seen}'

    def render_reason(self, row: dict[str, Any]) -> str:
        """Why some tasks have nothing to merge."""
        return f'<b>{escape_plain(row.get("count"), 12)}×</b> {escape_long(row.get("reason"), 500)} <span class="quiet">{self._render_tasks(row.get("tasks"))}</span>'

    def _render_tasks(self, slugs: Any) -> str:
        names = [str(slug) for slug in slugs] if isinstance(slugs, list) else []
        more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
        return ", ".join(self._render_task_link(slug) for slug in names[:_MAX_LISTED]) + more

    def _render_task_link(self, slug: str) -> str:
        one = self._tasks.get(slug)
        if one is None:
            return escape_plain(slug, 80)
        return f'<a href="tasks/{escape_plain(slug)}.html">{escape_plain(one.title.rpartition("::")[2], 80)}</a>'
