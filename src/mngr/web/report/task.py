"""The page of one task: claim and receipt, diff by commit, transcripts, and conversation."""

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
from mngr.web.report.report_data import ReportFacts, ReportTask

_MAX_DIFF_BYTES = 400_000  # Of all commits of a task.
_MAX_CONVERSATION_BYTES = 600_000  # Of a conversation, counted from its end.
_MAX_RECORDING_BYTES = 6_000_000  # Of all recordings on a page.
_MAX_PROMPT_CHARACTERS = 100_000  # Of a prompt.
_MAX_COMMIT_LINES = 3_000  # Of one commit.
_LOG_SCRIPT = """
git -C "$1" -c core.bigFileThreshold=1m log --no-show-signature --reverse --topo-order --max-count=200 --no-color --no-ext-diff \
    --no-textconv --no-renames --no-notes --patch --submodule=short --format='%x00%H%n%an%n%B%n%x00' "$2" -- | head -c "$3"
"""  # Files above 1 MB count as binary, whatever they contain.
_DIFF_CLASSES = {"+": "come", "-": "gone", "@": "at"}


def render_task(local: Host, facts: ReportFacts, index: int, fingerprint: str) -> str:
    """Return the page of the task at an index; `fingerprint` identifies the facts that it shows."""
    task = facts.tasks[index]
    neighbours = [
        ("‹ before", facts.tasks[index - 1]) if index else None,
        ("next ›", facts.tasks[index + 1]) if index + 1 < len(facts.tasks) else None,
    ]
    links = " ".join(
        f'<a href="{escape_plain(neighbour[1].slug)}.html" title="{escape_plain(neighbour[1].title, 200)}">{neighbour[0]}</a>'
        for neighbour in neighbours
        if neighbour
    )
    claim_and_receipt = (
        f'<div class="sides"><section class="card"><h2>Claim<span class="about">what the agent says</span></h2>{render_claim(task)}</section>'
        f'<section class="card"><h2>Receipt<span class="about">what we saw</span></h2>{render_receipt(task)}</section></div>'
    )
    task_artifacts = _TaskArtifacts(facts, task)
    conversation = (
        _render_conversation(facts.run.task_path(task.slug, "transcript.jsonl"))
        + _render_folded(
            "the prompt", _read_limited(facts.run.task_path(task.slug, "prompt.md"), _MAX_PROMPT_CHARACTERS)
        )
        + _render_folded(
            "left in its work tree, not committed",
            _read_limited(facts.run.task_path(task.slug, "uncommitted.diff"), _MAX_PROMPT_CHARACTERS),
        )
        + _render_history(task)
    )
    body = (
        f'<header><p class="way"><a href="../index.html">{escape_long(facts.run.name)}</a> <span class="steps">{links}</span></p>{_render_head(task)}</header>{claim_and_receipt}'
        + render_section("Diff by commit", _render_diff(local, facts, task))
        + render_section("What was run", task_artifacts.body, "transcript and terminals, side by side")
        + render_section("What was said and done", conversation)
    )
    is_live = facts.is_live and task.status_row["outcome"] is None
    return render_report_page(
        task.title,
        body,
        "../",
        live=is_live,
        plays=task_artifacts.plays and terminal_player.has_player(),
        fingerprint=fingerprint,
    )


def _render_head(task: ReportTask) -> str:
    """Return the heading of the page: the outcome, the test, the agent, time and cost."""
    row = task.status_row
    path, _, name = task.title.rpartition("::")
    about = [escape_plain(path, 300)] if path else []
    if task.test != task.title:
        about.append(f"<code>{escape_plain(task.test, 300)}</code>")
    if row["agent"]:
        about.append(f"agent <code>{escape_plain(row['agent'], 100)}</code> on {escape_plain(row['host'], 100)}")
    if row["outcome"] is not None:
        about.append(format_duration(row["seconds"]))
    if count_tokens(row["usage"]):
        about.append(
            f"{format_count(count_tokens(row['usage']))} tokens, {format_dollars(row['usage'].get('cost_usd'))}"
        )
    if task.state.attempt > 1:
        about.append(f"try {task.state.attempt}")
    if task.state.reminders:
        about.append(f"reminded {task.state.reminders}×")
    reason = row["reason"] or task.state.task.data.get("about")
    return f'<h1>{render_chip(task.outcome)} {escape_plain(name, 300)}</h1><p class="quiet">{" · ".join(about)}</p>' + (
        f'<p class="lead">{escape_long(reason, 2000)}</p>' if reason else ""
    )


# Diff


def _render_diff(local: Host, facts: ReportFacts, task: ReportTask) -> str:
    """Return the diff of each commit of the task."""
    base, commit = task.state.base, task.state.commit
    if not base or not commit or base == commit or not os.path.isdir(facts.run.repo):
        return ""
    result = local.run(["sh", "-c", _LOG_SCRIPT, "git", facts.run.repo, f"{base}..{commit}", str(_MAX_DIFF_BYTES)])
    parts = re.split(r"(?m)^\0", result.out.decode("utf-8", "replace"))
    commits = "".join(_render_commit(header, patch) for header, patch in zip(parts[1::2], parts[2::2], strict=False))
    cut_note = (
        f'<p class="note">Only the first {_MAX_DIFF_BYTES // 1000} kB are shown.</p>'
        if len(result.out) >= _MAX_DIFF_BYTES
        else ""
    )
    return commits + cut_note


def _render_commit(header: str, patch: str) -> str:
    name, _, rest = header.partition("\n")
    author, _, message = rest.partition("\n")
    subject, _, message_body = message.strip().partition("\n")
    lines = patch.strip("\n").split("\n")
    diff_html = "".join(_render_diff_lines(lines[:_MAX_COMMIT_LINES]))
    surplus = len(lines) - _MAX_COMMIT_LINES
    diff_html += f'<div class="cut">… {surplus} lines more are left out</div>' if surplus > 0 else ""
    body_html = f'<pre class="said">{escape_long(message_body.strip(), 4000)}</pre>' if message_body.strip() else ""
    return (
        f"<details open><summary><code>{escape_long(name[:10])}</code> <b>{escape_plain(subject, 300)}</b> "
        f'<span class="quiet">{escape_plain(author, 100)}</span></summary>{body_html}<div class="diff">{diff_html}</div></details>'
    )


def _render_diff_lines(lines: list[str]) -> Iterator[str]:
    """Yield each line with the class of its kind.

    A line of a file begins with a blank, a sign or a backslash, so it cannot look like a header.
    """
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
    """Return `x` for `a/x b/x`."""
    half = names[2 : len(names) // 2]
    return half if names == f"a/{half} b/{half}" else names


# Transcripts and recordings


class _TaskArtifacts:
    """Transcripts and recordings of a task: mngr's run of the claim, the baseline, and the agent's own runs."""

    def __init__(self, facts: ReportFacts, task: ReportTask) -> None:
        self.plays = False
        self._left, self._number = _MAX_RECORDING_BYTES, 0
        run, baseline_slug = facts.run, make_slug(task.test)
        parts = [self._render_tests("As claimed, run by us", run.task_path(task.slug), "receipt", is_open=True)]
        parts.append(
            self._render_tests("Untouched, before any agent", os.path.join(run.path, "baseline", baseline_slug), "1")
        )
        parts += [
            self._render_agent_transcript(name, text)
            for name, text in _iter_agent_transcripts(run.task_path(task.slug, "outputs", "runs"))
        ]
        self.body = "".join(parts)

    def _render_tests(self, title: str, parent: str, name: str, *, is_open: bool = False) -> str:
        directory = os.path.join(parent, name)
        slugs = sorted(os.listdir(directory)) if os.path.isdir(directory) and not os.path.islink(directory) else []
        return "".join(self._render_test(title, parent, name, slug, is_open) for slug in slugs[:20])

    def _render_test(self, title: str, parent: str, name: str, slug: str, is_open: bool) -> str:
        try:
            test = artifacts.load_test(parent, name, slug)
        except NotFound:
            return ""
        text = artifacts.read_transcript(parent, name, slug)
        terminals = "".join(
            self._render_terminal(recording) for recording in artifacts.read_recordings(parent, name, test)
        )
        terminal_section = f'<section class="terminals">{terminals}</section>' if terminals else ""
        return (
            f'<details{" open" if is_open else ""}><summary>{title} <span class="{test.status}"><span class="status">{test.status}</span></span> '
            f'<span class="quiet">{escape_plain(test.name, 300)}</span></summary><div class="columns"><section>{_render_transcript(text)}</section>{terminal_section}</div></details>'
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
    surplus = len(text) - _MAX_PROMPT_CHARACTERS
    cut_note = f'<p class="note">{format_count(surplus)} characters more are left out.</p>' if surplus > 0 else ""
    return (
        pages.render_transcript(text[:_MAX_PROMPT_CHARACTERS]) if text else '<p class="quiet">no transcript</p>'
    ) + cut_note


def _iter_agent_transcripts(runs_dir: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each transcript that the agent left; the files may be anything."""
    if os.path.islink(runs_dir) or not os.path.isdir(runs_dir):
        return
    for name in sorted(os.listdir(runs_dir))[:20]:
        text = _read_limited(os.path.join(runs_dir, name, "transcript.txt"), _MAX_PROMPT_CHARACTERS)
        if text and not os.path.islink(os.path.join(runs_dir, name)):
            yield name, text


# Conversation


def _render_conversation(path: str) -> str:
    """Return the agent's conversation, or its end if it is long."""
    text = _read_limited(path, _MAX_CONVERSATION_BYTES, from_end=True)
    messages = []
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            messages.append(_render_message(row))
    if not messages:
        return ""
    size = os.path.getsize(path)
    cut_note = (
        f'<p class="note">Only the last {_MAX_CONVERSATION_BYTES // 1000} kB of {format_count(size)}B are shown.</p>'
        if size > _MAX_CONVERSATION_BYTES
        else ""
    )
    return f'<details><summary>the conversation, {len(messages)} rows</summary>{cut_note}<div class="talk">{"".join(messages)}</div></details>'


def _render_message(row: dict[str, Any]) -> str:
    role = row.get("role") if row.get("role") in ("user", "assistant", "tool") else "other"
    time_html = f"<time>{escape_long(str(row.get('at') or '')[11:19])}</time>"
    author = escape_plain(row.get("tool") or row.get("model") or role, 60)
    text = row.get("text")
    body = f"<pre>{escape_long(text)}</pre>" if text else ""
    for key in ("input", "output"):
        value = row.get(key)
        if value:
            body += f"<details><summary>{key}</summary><pre>{escape_long(value if isinstance(value, str) else json.dumps(value, indent=1))}</pre></details>"
    return f'<div class="{role}"><p class="quiet">{time_html} {author}</p>{body}</div>' if body else ""


def _render_history(task: ReportTask) -> str:
    """Return the journal rows of the task."""
    rows = "".join(
        f"<li><time>{escape_long(row['at'][11:19])}</time> <b>{escape_plain(row['type'], 40)}</b> {escape_plain(_describe_row(row), 300)}</li>"
        for row in task.journal_rows[-300:]
    )
    return (
        f'<details><summary>its steps, {len(task.journal_rows)} rows of the journal</summary><ul class="plain">{rows}</ul></details>'
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


def _read_limited(path: str, max_bytes: int, *, from_end: bool = False) -> str:
    """Return at most about `max_bytes` of a regular file; nothing for links and other kinds of files."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(fd, "rb") as file:
        file_status = os.fstat(fd)
        if not stat.S_ISREG(file_status.st_mode):
            return ""
        if from_end and file_status.st_size > max_bytes:
            file.seek(file_status.st_size - max_bytes)
            file.readline()
        return file.read(max_bytes + 1).decode("utf-8", "replace")
