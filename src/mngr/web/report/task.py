"""The page of one task: claim and receipt, diff by commit, transcripts, and conversation."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping

from mngr.base.errors import NotFound
from mngr.base.paths import open_plain_file
from mngr.base.untrusted_json import get_text, parse_json
from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.journal.run_state import JournalRow
from mngr.mapreduce.run_dir import make_slug
from mngr.web import artifacts, e2e_run_pages, player_or_last_screen
from mngr.web.html_text import (
    escape_long,
    escape_plain,
    format_dollars,
    format_duration,
    render_chip,
    render_folded,
    render_list,
    shorten_number,
)
from mngr.web.report.baseline import render_task_baseline
from mngr.web.report.page import render_report_page, render_section
from mngr.web.report.receipt import render_claim, render_receipt
from mngr.web.report.report_data import ReportFacts, ReportTask

_MAX_DIFF_BYTES = 400_000  # Of all commits of a task.
_MAX_CONVERSATION_BYTES = 600_000  # Of a conversation, counted from its end.
_MAX_RECORDING_BYTES = 6_000_000  # Of all recordings on a page.
_MAX_PROMPT_CHARACTERS = 100_000  # Of a prompt.
_MAX_COMMIT_LINES = 3_000  # Of one commit.
_MAX_TESTS = 20  # Of one kind: run by mngr or by the agent.
_LOG_ARGS = (
    "-c", "core.bigFileThreshold=1m",  # Files above 1 MB count as binary, whatever they contain.
    "log", "--no-show-signature", "--reverse", "--topo-order", "--max-count=200", "--no-color", "--no-ext-diff", "--no-textconv",
    "--no-renames", "--no-notes", "--patch", "--submodule=short", "--format=%x00%H%n%an%n%B%n%x00",
)  # fmt: skip
_LIMIT_SCRIPT = 'limit=$1; shift; "$@" | head -c "$limit"'
_MAX_JOURNAL_ROWS = 300
_SHOWN_FIELDS = ("agent", "host", "proof", "reason", "why", "error", "outcome", "until", "commit", "close_reason")
_DIFF_CLASSES = {"+": "come", "-": "gone", "@": "at"}


def render_task(local: Host, facts: ReportFacts, index: int, fingerprint: str) -> str:
    """Return the page of the task at an index; `fingerprint` identifies the facts that it shows."""
    task = facts.tasks[index]
    claim_and_receipt = (
        f'<div class="sides"><section class="card"><h2>Claim<span class="about">what the agent says</span></h2>{render_claim(task)}</section>'
        f'<section class="card"><h2>Receipt<span class="about">what mngr saw</span></h2>{render_receipt(task)}</section></div>'
    )
    task_artifacts = _TaskArtifacts(facts, task)
    prompt = _read_limited(facts.run.task_path(task.slug, "prompt.md"), _MAX_PROMPT_CHARACTERS)
    uncommitted = _read_limited(facts.run.task_path(task.slug, "uncommitted.diff"), _MAX_PROMPT_CHARACTERS)
    conversation = (
        _render_conversation(facts.run.task_path(task.slug, "transcript.jsonl"))
        + _render_folded_text("prompt", prompt)
        + _render_folded_text("uncommitted changes in the work dir", uncommitted)
        + _render_history(task)
    )
    run_link = f'<a href="../index.html">{escape_long(facts.run.name)}</a>'
    body = (
        f'<header><p class="way">{run_link} <span class="steps">{_render_neighbour_links(facts, index)}</span></p>{_render_head(task)}</header>{claim_and_receipt}'
        + render_section("Before any change", render_task_baseline(task), "how mngr ran the test, and what it saw")
        + render_section("Diff by commit", _render_diff(local, facts, task))
        + render_section("Test runs", task_artifacts.body, "transcripts and terminal recordings")
        + render_section("Conversation and steps", conversation)
    )
    return render_report_page(
        task.title,
        body,
        "../",
        is_live=facts.is_live and not task.is_over,
        plays=task_artifacts.plays and player_or_last_screen.has_player(),
        fingerprint=fingerprint,
    )


def _render_neighbour_links(facts: ReportFacts, index: int) -> str:
    """Return links to the tasks before and after the task at an index."""
    links = [_render_neighbour_link("‹ previous", task) for task in facts.tasks[max(0, index - 1) : index]]
    links += [_render_neighbour_link("next ›", task) for task in facts.tasks[index + 1 : index + 2]]
    return " ".join(links)


def _render_neighbour_link(label: str, task: ReportTask) -> str:
    return f'<a href="{escape_plain(task.slug)}.html" title="{escape_plain(task.title, 200)}">{label}</a>'


def _render_head(task: ReportTask) -> str:
    """Return the heading of the page: the outcome, the test, the agent, time and cost."""
    status = task.status
    path = task.title.rpartition("::")[0]
    about = [escape_plain(path, 300)] if path else []
    if task.test != task.title:
        about.append(f"<code>{escape_plain(task.test, 300)}</code>")
    if status.agent:
        kind = f"{escape_plain(status.agent_kind, 60)} agent" if status.agent_kind else "agent"
        about.append(f"{kind} <code>{escape_plain(status.agent, 100)}</code> on {escape_plain(status.host, 100)}")
    if task.is_over:
        about.append(format_duration(status.seconds))
    if status.usage is not None and status.usage.tokens:
        about.append(f"{shorten_number(status.usage.tokens)} tokens, {format_dollars(status.usage.cost_usd)}")
    if status.attempt > 1:
        about.append(f"attempt {status.attempt}")
    if status.reminders:
        about.append("reminded once" if status.reminders == 1 else f"reminded {status.reminders} times")
    reason = status.reason or task.about
    reason_html = f'<p class="lead">{escape_long(reason, 2000)}</p>' if reason else ""
    title = f"<h1>{render_chip(task.outcome)} {escape_plain(task.short_title, 300)}</h1>"
    return f'{title}<p class="quiet">{" · ".join(about)}</p>{reason_html}'


# Diff


def _render_diff(local: Host, facts: ReportFacts, task: ReportTask) -> str:
    """Return the diff of each commit of the task."""
    base, commit = task.state.base, task.state.commit
    if not base or not commit or base == commit or not os.path.isdir(facts.run.repo):
        return ""
    log = [*git.ISOLATED_GIT, "-C", facts.run.repo, *_LOG_ARGS, f"{base}..{commit}", "--"]
    result = local.run(["sh", "-c", _LIMIT_SCRIPT, "limit", str(_MAX_DIFF_BYTES), *log])
    parts = re.split(r"(?m)^\0", result.out.decode("utf-8", "replace"))
    html = "".join(_render_commit(header, patch) for header, patch in zip(parts[1::2], parts[2::2], strict=False))
    if len(result.out) >= _MAX_DIFF_BYTES:
        html += f'<p class="note">Only the first {_MAX_DIFF_BYTES // 1000} kB are shown.</p>'
    return html


def _render_commit(header: str, patch: str) -> str:
    name, _, rest = header.partition("\n")
    author, _, message = rest.partition("\n")
    subject, _, message_body = message.strip().partition("\n")
    message_body = message_body.strip()
    lines = patch.strip("\n").split("\n")
    diff_html = "".join(_render_diff_lines(lines[:_MAX_COMMIT_LINES]))
    surplus = len(lines) - _MAX_COMMIT_LINES
    if surplus > 0:
        diff_html += f'<div class="cut">… {surplus} more lines are not shown</div>'
    body_html = f'<pre class="agent-text">{escape_long(message_body, 4000)}</pre>' if message_body else ""
    summary = (
        f"<code>{escape_plain(name[:10])}</code> <b>{escape_plain(subject, 300)}</b> "
        f'<span class="quiet">{escape_plain(author, 100)}</span>'
    )
    return render_folded(summary, f'{body_html}<div class="diff">{diff_html}</div>', is_open=True)


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
        self._bytes_left, self._number = _MAX_RECORDING_BYTES, 0
        run = facts.run
        baseline_dir = os.path.join(run.path, "baseline", make_slug(task.test))
        claimed = self._render_tests(
            "With the claimed change, run by mngr", run.task_path(task.slug), "receipt", is_open=True
        )
        baseline = self._render_tests("Before any change, run by mngr", baseline_dir, "1")
        agent_runs = _read_run_transcripts(run.task_path(task.slug, "outputs", "runs"))
        own_runs = [_render_agent_transcript(name, text) for name, text in agent_runs]
        self.body = "".join([claimed, baseline, *own_runs])

    def _render_tests(self, title: str, parent: str, name: str, *, is_open: bool = False) -> str:
        directory = os.path.join(parent, name)
        if os.path.islink(directory) or not os.path.isdir(directory):
            return ""
        slugs = sorted(os.listdir(directory))[:_MAX_TESTS]
        return "".join(self._render_test(title, parent, name, slug, is_open) for slug in slugs)

    def _render_test(self, title: str, parent: str, name: str, slug: str, is_open: bool) -> str:
        try:
            test = artifacts.load_test(parent, name, slug)
        except NotFound:
            return ""
        transcript = _render_transcript(artifacts.read_transcript(parent, name, slug))
        terminals = "".join(
            self._render_terminal(recording) for recording in artifacts.read_recordings(parent, name, test)
        )
        terminal_section = f'<section class="terminals">{terminals}</section>' if terminals else ""
        summary = (
            f'{title} <span class="{test.status}"><span class="status">{test.status}</span></span> '
            f'<span class="quiet">{escape_plain(test.name, 300)}</span>'
        )
        body = f'<div class="columns"><section>{transcript}</section>{terminal_section}</div>'
        return render_folded(summary, body, is_open=is_open)

    def _render_terminal(self, recording: artifacts.Recording) -> str:
        self._bytes_left -= len(recording.text)
        if self._bytes_left < 0:
            return f'<p class="note">{escape_plain(recording.name, 100)} is too large for this page.</p>'
        self.plays = True
        self._number += 1
        key = f"cast-{self._number}"
        return e2e_run_pages.render_terminal(key, recording) + e2e_run_pages.render_recording(key, recording)


def _render_agent_transcript(name: str, text: str) -> str:
    return render_folded(f"The agent's own run <code>{escape_plain(name, 100)}</code>", _render_transcript(text))


def _render_transcript(text: str) -> str:
    if not text:
        return '<p class="quiet">no transcript</p>'
    html = e2e_run_pages.render_transcript(text[:_MAX_PROMPT_CHARACTERS])
    surplus = len(text) - _MAX_PROMPT_CHARACTERS
    if surplus > 0:
        html += f'<p class="note">{shorten_number(surplus)} more characters are not shown.</p>'
    return html


def _read_run_transcripts(runs_dir: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each transcript that the agent left; the files may be anything."""
    if os.path.islink(runs_dir) or not os.path.isdir(runs_dir):
        return
    for name in sorted(os.listdir(runs_dir))[:_MAX_TESTS]:
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
            row = parse_json(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            messages.append(_render_message(row))
    if not messages:
        return ""
    size = os.path.getsize(path)
    cut_note = ""
    if size > _MAX_CONVERSATION_BYTES:
        cut_note = f'<p class="note">Only the last {_MAX_CONVERSATION_BYTES // 1000} kB of {shorten_number(size)}B are shown.</p>'
    body = f'{cut_note}<div class="talk">{"".join(messages)}</div>'
    return render_folded(f"conversation, {len(messages)} messages", body)


def _render_message(row: Mapping[str, object]) -> str:
    """Return one message of a conversation; agents wrote it, so it may have any fields."""
    role = get_text(row, "role")
    if role not in ("user", "assistant", "tool"):
        role = "other"
    text = get_text(row, "text")
    body = f"<pre>{escape_long(text)}</pre>" if text else ""
    body += _render_tool_data("input", row.get("input")) + _render_tool_data("output", row.get("output"))
    if not body:
        return ""
    author = escape_plain(get_text(row, "tool") or get_text(row, "model") or role, 60)
    time_html = f"<time>{escape_plain(get_text(row, 'at')[11:19])}</time>"
    return f'<div class="{role}"><p class="quiet">{time_html} {author}</p>{body}</div>'


def _render_tool_data(label: str, value: object) -> str:
    if not value:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, indent=1)
    return render_folded(label, f"<pre>{escape_long(text)}</pre>")


def _render_history(task: ReportTask) -> str:
    """Return the journal rows of the task."""
    items = [_render_journal_row(row) for row in task.journal_rows[-_MAX_JOURNAL_ROWS:]]
    return render_folded(f"steps, {len(task.journal_rows)} rows of the journal", render_list(items))


def _render_journal_row(row: JournalRow) -> str:
    fields = row.to_dict()
    details = ", ".join(f"{key} {fields[key]}" for key in _SHOWN_FIELDS if fields.get(key))
    return f"<time>{escape_plain(row.at[11:19])}</time> <b>{row.type_name}</b> {escape_plain(details, 300)}"


def _render_folded_text(title: str, text: str) -> str:
    if not text.strip():
        return ""
    return render_folded(title, f"<pre>{escape_long(text, _MAX_PROMPT_CHARACTERS)}</pre>")


def _read_limited(path: str, max_bytes: int, *, from_end: bool = False) -> str:
    """Return at most about `max_bytes` of a regular file; nothing for links and other kinds of files."""
    try:
        with open_plain_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            if from_end and size > max_bytes:
                file.seek(size - max_bytes)
                file.readline()
            return file.read(max_bytes + 1).decode("utf-8", "replace")
    except OSError:
        return ""
