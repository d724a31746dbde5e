"""What became of the run's changes: merged in which order, left out and why."""

from __future__ import annotations

from mngr.web.report_facts import rows_of
from mngr.web.text import chip, plain, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mngr.web.report_facts import Facts, One

    Rows = Sequence[dict[str, Any]]

_LISTED = 12  # tasks that are named for one change
_AT_ONCE = 10  # changes of one commit that stand open


def integration(facts: Facts) -> str:
    """The commits of `integration.json` in their order with the changes in each, and what was left out; before that what could
    be merged, of `changes.json`; nothing where there is neither."""
    data = facts.integration if isinstance(facts.integration, dict) else {}
    made = facts.changes if isinstance(facts.changes, dict) else {}
    named = _Named(facts.tasks, rows_of(made.get("changes")))
    left = rows_of(data.get("left_out"))
    causes = rows_of(made.get("causes"))
    branch = data.get("branch")
    parts = [
        f"<p>{chip(data.get('verdict'))} <code>{plain(branch, 200)}</code> <code>{shown(str(data.get('head') or '')[:10])}</code></p>"
        if branch
        else "",
        _list("commits, in this order", [named.commit(row) for row in rows_of(data.get("commits"))], "ol"),
        ""
        if data
        else _list("changes to merge", [named.change(str(row.get("id"))) for row in named.rows], "ol"),
        _list("changes put aside", [named.aside(row) for row in left], "ul"),
        _list("reasons why work was not taken", [named.cause(row) for row in causes], "ul"),
    ]
    return "".join(parts)


def _list(title: str, items: Sequence[str], kind: str) -> str:
    if not items:
        return ""
    text = "".join(f"<li>{item}</li>" for item in items)
    head = (
        title
        if len(items) > 1
        else title.replace("commits", "commit").replace("changes", "change").replace("reasons", "reason")
    )
    return f'<h3>{len(items)} {head}</h3><{kind} class="changes">{text}</{kind}>'


class _Named:
    """Tasks and changes by their names."""

    def __init__(self, tasks: Sequence[One], changes: Rows) -> None:
        self.rows = changes
        self._tasks = {one.slug: one for one in tasks}
        self._changes = {str(row.get("id")): row for row in changes}

    def commit(self, row: dict[str, Any]) -> str:
        """One of the branch, and what is in it."""
        ids = [str(name) for name in row.get("changes") or ()]
        inside = "".join(f"<li>{self.change(name)}</li>" for name in ids)
        body = f'<ul class="changes">{inside}</ul>'
        if len(ids) > _AT_ONCE:
            body = f"<details><summary>{len(ids)} changes</summary>{body}</details>"
        head = f"<code>{shown(str(row.get('commit') or '')[:10])}</code> {chip(row.get('kind'))} <b>{plain(row.get('subject'), 300)}</b>"
        return head + (body if ids else "")

    def change(self, name: str) -> str:
        """One change: how large it is, what it turns green, who made it."""
        row = self._changes.get(name, {})
        size = row.get("size") if isinstance(row.get("size"), dict) else {}
        assert isinstance(size, dict)
        about = [f"+{plain(size.get('added', 0), 12)} −{plain(size.get('removed', 0), 12)}"] if size else []
        if row.get("turned"):
            about.append(f"turns {len(row['turned'])} green")
        if isinstance(row.get("agents"), list) and len(row["agents"]) > 1:
            about.append(f"found by {len(row['agents'])} agents")
        flag = chip("flagged") if row.get("flagged") else ""
        return (
            f'<code class="id">{plain(name, 40)}</code> {chip(row.get("kind"))} {plain(row.get("title"), 300)} {flag} '
            f'<span class="quiet">{" · ".join(about)} {self._who(row.get("tasks"))}</span>'
        )

    def aside(self, row: dict[str, Any]) -> str:
        """A change that was not merged, and the proof."""
        name = row.get("change") or row.get("id")
        what = self.change(str(name)) if name else self._who([row.get("task")])
        proof = row.get("proof")
        seen = ""
        if isinstance(proof, dict):
            seen = f'<p class="why"><code>{plain(proof.get("test"), 300)}</code> {chip(proof.get("before"))} → {chip(proof.get("after"))}</p>'
        return f'{what}<p class="why">{shown(row.get("reason"), 2000)}</p>{seen}'

    def cause(self, row: dict[str, Any]) -> str:
        """Why some tasks have nothing to merge."""
        return f'<b>{plain(row.get("count"), 12)}×</b> {shown(row.get("reason"), 500)} <span class="quiet">{self._who(row.get("tasks"))}</span>'

    def _who(self, slugs: Any) -> str:
        names = [str(slug) for slug in slugs] if isinstance(slugs, list) else []
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        return ", ".join(self._task(slug) for slug in names[:_LISTED]) + more

    def _task(self, slug: str) -> str:
        one = self._tasks.get(slug)
        if one is None:
            return plain(slug, 80)
        return f'<a href="tasks/{plain(slug)}.html">{plain(one.title.rpartition("::")[2], 80)}</a>'
