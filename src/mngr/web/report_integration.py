"""What became of the run's changes: merged in which order, left out and why."""

from __future__ import annotations

from mngr.web.report_facts import rows_of
from mngr.web.text import chip, plain, shown, word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mngr.web.report_facts import Facts, One

_LISTED = 12  # tasks that are named for one change


def integration(facts: Facts) -> str:
    """The changes in order, and those that were left out; nothing while nobody has integrated."""
    data = facts.integration if isinstance(facts.integration, dict) else {}
    known = {str(row.get("id")): row for row in rows_of(_part(facts.changes, "changes"))}
    order = [_told(row, known) for row in _list(data, "order")]
    left = [_told(row, known) for row in _list(data, "left")]
    if not data and not known:
        return ""
    by_slug = {one.slug: one for one in facts.tasks}
    if not data:
        return _list_of("changes that can be merged", list(known.values()), by_slug)
    branch = data.get("branch")
    head = f"<p>{chip(data.get('verdict'))} <code>{plain(branch, 200)}</code></p>" if branch else ""
    return head + _list_of("integrated, in this order", order, by_slug) + _list_of("left out", left, by_slug)


def _part(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else value


def _list(data: dict[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    return value if isinstance(value, list) else []


def _told(row: Any, known: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A change, by its id or with what the integration says of it."""
    if not isinstance(row, dict):
        return known.get(str(row), {"id": row})
    name = str(row.get("change") or row.get("id") or "")
    return {**known.get(name, {}), **row, "id": name}


def _list_of(title: str, rows: list[dict[str, Any]], by_slug: dict[str, One]) -> str:
    if not rows:
        return ""
    return f'<h3>{len(rows)} {title}</h3><ol class="changes">{"".join(_change(row, by_slug) for row in rows)}</ol>'


def _change(row: dict[str, Any], by_slug: dict[str, One]) -> str:
    why = row.get("why") or row.get("reason")
    slugs = [str(slug) for slug in row.get("tasks") or () if isinstance(slug, str)]
    named = ", ".join(_task(slug, by_slug) for slug in slugs[:_LISTED])
    more = f" and {len(slugs) - _LISTED} more" if len(slugs) > _LISTED else ""
    kind = row.get("kind")
    said = f'<p class="why">{shown(why, 1000)}</p>' if why else ""
    return (
        f'<li><code class="id">{plain(row.get("id"), 40)}</code> <span class="kind {word(kind)}">{plain(kind, 40)}</span> '
        f'{plain(row.get("title") or row.get("subject"), 300)} <span class="quiet">{named}{more}</span>{said}</li>'
    )


def _task(slug: str, by_slug: dict[str, One]) -> str:
    one = by_slug.get(slug)
    if one is None:
        return plain(slug, 80)
    return f'<a href="tasks/{plain(slug)}.html">{plain(one.title.rpartition("::")[2], 80)}</a>'
