"""The page of one task: claim and receipt, the diff by commit, what was run, and what was said."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from typing import Any

from mngr.base.errors import NotFound
from mngr.host.protocol import Host
from mngr.mapreduce.run_dir import make_slug
from mngr.web import artifacts, pages, terminal_player
from mngr.web.html_text import (
    count_tokens,
    escape_long,
    escape_plain,
    format_count,
    format_dollars,
    format_duration,
    render_chip,
)
from mngr.web.report.index import render_report_page, render_section
from mngr.web.report.receipt import render_claim, render_receipt
from mngr.web.report.run_facts import ReportFacts, ReportTask

_MAX_DIFF_BYTES = 400_000  # bytes of all commits of a task
_MAX_CONVERSATION_BYTES = 600_000  # bytes of a conversation, from its end
_MAX_RECORDING_BYTES = 6_000_000  # bytes of all recordings on a page
_MAX_PROMPT_CHARACTERS = 100_000  # characters of a prompt
_MAX_COMMIT_LINES = 3_000  # of one commit
_LOG_SCRIPT = """
git -C "$1" -c core.bigFileThreshold=1m log --no-show-signature --reverse --topo-order --max-count=200 --no-color --no-ext-diff \
    --no-textconv --no-renames --no-notes --patch --submodule=short --format='%x00%H%n%an%n%B%n%x00' "$2" -- | head -c "$3"
"""  # what is larger counts as binary; the file itself decides nothing of this
_DIFF_CLASSES = {"+": "come", "-": "gone", "@": "at"}


def render_task(local: Host, facts: ReportFacts, at: int, of: str) -> str:
    """The page of the task at that place; `of` says what it was made of."""
    one = facts.tasks[at]
    ways = [
        ("‹ before", facts.tasks[at - 1]) if at else None,
        ("next ›", facts.tasks[at + 1]) if at + 1 < len(facts.tasks) else None,
    ]
    links = " ".join(
        f'<a href="{escape_plain(way[1].slug)}.html" title="{escape_plain(way[1].title, 200)}">{way[0]}</a>'
        for way in ways
        if way
    )
    sides = (
        f'<div class="sides"><section class="card"><h2>Claim<span class="about">what the agent says</span></h2>{render_claim(one)}</section>'
        f'<section class="card"><h2>Receipt<span class="about">what we saw</span></h2>{render_receipt(one)}</section></div>'
    )
    ran = _TaskArtifacts(facts, one)
    said = (
        _render_conversation(facts.run.task_path(one.slug, "transcript.jsonl"))
        + _render_folded(
            "the prompt", _read_limited(facts.run.task_path(one.slug, "prompt.md"), _MAX_PROMPT_CHARACTERS)
        )
        + _render_folded(
            "left in its work tree, not committed",
            _read_limited(facts.run.task_path(one.slug, "uncommitted.diff"), _MAX_PROMPT_CHARACTERS),
        )
        + _render_history(one)
    )
    body = (
        f'<header><p class="way"><a href="../index.html">{escape_long(facts.run.name)}</a> <span class="steps">{links}</span></p>{_render_head(one)}</header>{sides}'
        + render_section("Diff by commit", _render_diff(local, facts, one))
        + render_section("What was run", ran.body, "transcript and terminals, side by side")
        + render_section("What was said and done", said)
    )
    live = facts.is_live and one.status_row["outcome"] is None
    return render_report_page(
        one.title, body, "../", live=live, plays=ran.plays and terminal_player.has_player(), of=of
    )


def _render_head(one: ReportTask) -> str:
    row = one.status_row
    path, _, name = one.title.rpartition("::")
    about = [escape_plain(path, 300)] if path else []
    if one.test != one.title:
        about.append(f"<code>{escape_plain(one.test, 300)}</code>")
    if row["agent"]:
        about.append(f"agent <code>{escape_plain(row['agent'], 100)}</code> on {escape_plain(row['host'], 100)}")
    if row["outcome"] is not None:
        about.append(format_duration(row["seconds"]))
    if count_tokens(row["usage"]):
        about.append(
            f"{format_count(count_tokens(row['usage']))} tokens, {format_dollars(row['usage'].get('cost_usd'))}"
        )
    if one.state.attempt > 1:
        about.append(f"try {one.state.attempt}")
    if one.state.reminders:
        about.append(f"reminded {one.state.reminders}×")
    why = row["reason"] or one.state.task.data.get("about")
    return f'<h1>{render_chip(one.outcome)} {escape_plain(name, 300)}</h1><p class="quiet">{" · ".join(about)}</p>' + (
        f'<p class="lead">{escape_long(why, 2000)}</p>' if why else ""
    )


# The diff


def _render_diff(local: Host, facts: ReportFacts, one: ReportTask) -> str:
    base, commit = one.state.base, one.state.commit
    if not base or not commit or base == commit or not os.path.isdir(facts.run.repo):
        return ""
    ran = local.run(["sh", "-c", _LOG_SCRIPT, "git", facts.run.repo, f"{base}..{commit}", str(_MAX_DIFF_BYTES)])
    parts = re.split(r"(?m)^\0", ran.out.decode("utf-8", "replace"))
    commits = "".join(_render_commit(about, patch) for about, patch in zip(parts[1::2], parts[2::2], strict=False))
    cut = (
        f'<p class="note">Only the first {_MAX_DIFF_BYTES // 1000} kB are shown.</p>'
        if len(ran.out) >= _MAX_DIFF_BYTES
        else ""
    )
    return commits + cut


def _render_commit(about: str, patch: str) -> str:
    name, _, rest = about.partition("\n")
    author, _, message = rest.partition("\n")
    subject, _, more = message.strip().partition("\n")
    lines = patch.strip("\n").split("\n")
    body = "".join(_render_diff_lines(lines[:_MAX_COMMIT_LINES]))
    over = len(lines) - _MAX_COMMIT_LINES
    body += f'<div class="cut">… {over} lines more are left out</div>' if over > 0 else ""
    said = f'<pre class="said">{escape_long(more.strip(), 4000)}</pre>' if more.strip() else ""
    return (
        f"<details open><summary><code>{escape_long(name[:10])}</code> <b>{escape_plain(subject, 300)}</b> "
        f'<span class="quiet">{escape_plain(author, 100)}</span></summary>{said}<div class="diff">{body}</div></details>'
    )


def _render_diff_lines(lines: list[str]) -> Iterator[str]:
    """Each by its kind. What a file holds begins with a blank, a sign or a backslash, so it cannot pass for a head."""
    in_head = True
    for line in lines:
        if line.startswith("diff --git "):
            in_head = True
            yield f'<div class="file">{escape_long(_parse_diff_path(line[11:]), 1000)}</div>'
        elif in_head and line.startswith(("index ", "--- ", "+++ ")):
            continue
        else:
            in_head = in_head and not line.startswith("@@")
            kind = "at" if in_head else _DIFF_CLASSES.get(line[:1], "same")
            yield f'<div class="{kind}">{escape_long(line, 2000) or "&nbsp;"}</div>'


def _parse_diff_path(names: str) -> str:
    """`x` of `a/x b/x`."""
    half = names[2 : len(names) // 2]
    return half if names == f"a/{half} b/{half}" else names


# What was run


class _TaskArtifacts:
    """Transcripts and recordings of a test: untouched, as claimed, and those that its agent wants to be seen."""

    def __init__(self, facts: ReportFacts, one: ReportTask) -> None:
        self.plays = False
        self._left, self._number = _MAX_RECORDING_BYTES, 0
        run, before = facts.run, make_slug(one.test)
        parts = [self._render_tests("As claimed, run by us", run.task_path(one.slug), "receipt", is_open=True)]
        parts.append(self._render_tests("Untouched, before any agent", os.path.join(run.path, "baseline", before), "1"))
        parts += [
            self._render_agent_transcript(name, text)
            for name, text in _iter_agent_transcripts(run.task_path(one.slug, "outputs", "runs"))
        ]
        self.body = "".join(parts)

    def _render_tests(self, title: str, place: str, name: str, *, is_open: bool = False) -> str:
        where = os.path.join(place, name)
        slugs = sorted(os.listdir(where)) if os.path.isdir(where) and not os.path.islink(where) else []
        return "".join(self._render_test(title, place, name, slug, is_open) for slug in slugs[:20])

    def _render_test(self, title: str, place: str, name: str, slug: str, is_open: bool) -> str:
        try:
            test = artifacts.load_test(place, name, slug)
        except NotFound:
            return ""
        text = artifacts.read_transcript(place, name, slug)
        shown_ = "".join(self._render_terminal(recording) for recording in artifacts.read_recordings(place, name, test))
        right = f'<section class="terminals">{shown_}</section>' if shown_ else ""
        return (
            f'<details{" open" if is_open else ""}><summary>{title} <span class="{test.status}"><span class="status">{test.status}</span></span> '
            f'<span class="quiet">{escape_plain(test.name, 300)}</span></summary><div class="columns"><section>{_render_transcript(text)}</section>{right}</div></details>'
        )

    def _render_terminal(self, recording: artifacts.Recording) -> str:
        self._left -= len(recording.text)
        if self._left < 0:
            return f'<p class="note">{escape_plain(recording.name, 100)} is too large for this page.</p>'
        self.plays = True
        self._number += 1
        key = f"cast-{self._number}"
        return pages.render_terminal(key, recording) + pages.render_recording(key, recording)

    def _render_agent_transcript(self, name: str, text: str) -> str:
        return f"<details><summary>The agent's own run <code>{escape_plain(name, 100)}</code></summary>{_render_transcript(text)}</details>"


def _render_transcript(text: str) -> str:
    over = len(text) - _MAX_PROMPT_CHARACTERS
    cut = f'<p class="note">{format_count(over)} characters more are left out.</p>' if over > 0 else ""
    return (
        pages.render_transcript(text[:_MAX_PROMPT_CHARACTERS]) if text else '<p class="quiet">no transcript</p>'
    ) + cut


def _iter_agent_transcripts(where: str) -> Iterator[tuple[str, str]]:
    """What an agent put there, which may be anything."""
    if os.path.islink(where) or not os.path.isdir(where):
        return
    for name in sorted(os.listdir(where))[:20]:
        text = _read_limited(os.path.join(where, name, "transcript.txt"), _MAX_PROMPT_CHARACTERS)
        if text and not os.path.islink(os.path.join(where, name)):
            yield name, text


# What was said


def _render_conversation(path: str) -> str:
    text = _read_limited(path, _MAX_CONVERSATION_BYTES, from_end=True)
    said = []
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            said.append(_render_message(row))
    if not said:
        return ""
    whole = os.path.getsize(path)
    cut = (
        f'<p class="note">Only the last {_MAX_CONVERSATION_BYTES // 1000} kB of {format_count(whole)}B are shown.</p>'
        if whole > _MAX_CONVERSATION_BYTES
        else ""
    )
    return f'<details><summary>the conversation, {len(said)} rows</summary>{cut}<div class="talk">{"".join(said)}</div></details>'


def _render_message(row: dict[str, Any]) -> str:
    role = row.get("role") if row.get("role") in ("user", "assistant", "tool") else "other"
    at = f"<time>{escape_long(str(row.get('at') or '')[11:19])}</time>"
    who = escape_plain(row.get("tool") or row.get("model") or role, 60)
    text = row.get("text")
    body = f"<pre>{escape_long(text)}</pre>" if text else ""
    for key in ("input", "output"):
        value = row.get(key)
        if value:
            body += f"<details><summary>{key}</summary><pre>{escape_long(value if isinstance(value, str) else json.dumps(value, indent=1))}</pre></details>"
    return f'<div class="{role}"><p class="quiet">{at} {who}</p>{body}</div>' if body else ""


def _render_history(one: ReportTask) -> str:
    rows = "".join(
        f"<li><time>{escape_long(row['at'][11:19])}</time> <b>{escape_plain(row['type'], 40)}</b> {escape_plain(_describe_row(row), 300)}</li>"
        for row in one.journal_rows[-300:]
    )
    return (
        f'<details><summary>its steps, {len(one.journal_rows)} rows of the journal</summary><ul class="plain">{rows}</ul></details>'
        if rows
        else ""
    )


def _describe_row(row: dict[str, Any]) -> str:
    keys = ("agent", "host", "proof", "reason", "why", "error", "outcome", "until", "commit", "closed")
    return ", ".join(f"{key} {row[key]}" for key in keys if row.get(key))


def _render_folded(title: str, text: str) -> str:
    return (
        f"<details><summary>{title}</summary><pre>{escape_long(text, _MAX_PROMPT_CHARACTERS)}</pre></details>"
        if text.strip()
        else ""
    )


def _read_limited(path: str, most: int, *, from_end: bool = False) -> str:
    """A plain file that somebody left, or so much of it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(fd, "rb") as file:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            return ""
        if from_end and about.st_size > most:
            file.seek(about.st_size - most)
            file.readline()
        return file.read(most + 1).decode("utf-8", "replace")
