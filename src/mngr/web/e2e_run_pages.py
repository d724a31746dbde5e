"""Renders the pages of e2e test runs. All text from tests is escaped, and pages load nothing from other sites."""

from __future__ import annotations

import json

from mngr.web import player_or_last_screen
from mngr.web.artifacts import STATUS_ORDER, E2eRun, E2eTest, Recording
from mngr.web.html_text import escape_plain as escape
from mngr.web.html_text import strip_direction_controls

_LINE_CLASSES = {"$ ": "command", "# ": "comment", "! ": "error", "? ": "code"}


def render_index(runs: list[E2eRun], hidden_count: int = 0, *, tutorial: str | None = None) -> str:
    """Return the page with all runs, and a link to the tutorial if there is one."""
    rows = "".join(
        f'<tr><td><a href="{escape(run.name)}/index.html">{escape(run.name)}</a></td><td>{escape(run.at)}</td>'
        f"<td>{render_counts(run.tests)}</td></tr>"
        for run in runs
    )
    body = f"<h1>Runs</h1><table><tr><th>run</th><th>when</th><th>tests</th></tr>{rows}</table>"
    if not runs:
        body = "<h1>Runs</h1><p>There are no runs yet. Run tests that use the <code>e2e</code> fixture.</p>"
    if hidden_count:
        body += f"<p>{hidden_count} older runs are not shown.</p>"
    if tutorial:
        body += (
            f'<p><a href="{tutorial}">The tutorial</a>: its blocks, the tests that cite them, and what these did</p>'
        )
    return render_page("Runs", body, "")


def render_run(run: E2eRun) -> str:
    """Return the page of one run with its tests, failed ones first."""
    rows = "".join(_render_row(test) for test in run.tests)
    head = "<tr><th>test</th><th>what it shows</th><th>blocks</th><th>terminals</th><th>seconds</th></tr>"
    body = (
        f'<p class="way"><a href="../index.html">runs</a></p><h1>{escape(run.name)}</h1><p>{render_counts(run.tests)}</p>'
        '<input id="find" type="search" placeholder="find a test" aria-label="find a test">'
        f'<table id="tests">{head}{rows}</table>'
    )
    return render_page(run.name, body, "../")


def _render_row(test: E2eTest) -> str:
    first_line = test.doc.strip().partition("\n")[0]
    return (
        f'<tr class="{test.status}"><td><span class="status">{test.status}</span> '
        f'<a href="{escape(test.slug)}/index.html">{escape(test.name)}</a></td><td>{escape(first_line)}</td>'
        f"<td>{len(test.blocks) or ''}</td><td>{len(test.recordings) or ''}</td><td>{test.seconds:.1f}</td></tr>"
    )


def render_test(run: str, test: E2eTest, transcript: str, recordings: list[Recording]) -> str:
    """Return the page of one test: its description, its transcript and its terminals, side by side."""
    location = f"{test.file}:{test.line}" if test.line is not None else test.file
    description = [f"<h2>About</h2><p><code>{escape(location)}</code></p>"]
    if test.is_observed:
        description.append('<p class="note">Observed, not reviewed by anybody.</p>')
    if test.doc:
        description.append(f'<pre class="doc">{escape(test.doc)}</pre>')
    description += [f'<h2>Block</h2><pre class="block">{escape(block)}</pre>' for block in test.blocks]
    if test.allowed:
        description.append(f"<h2>Allowed from the environment</h2><p>{escape(', '.join(test.allowed))}</p>")
    if test.failure:
        description.append(f'<h2>Failure</h2><pre class="failure">{escape(test.failure)}</pre>')
    transcript_html = f"<h2>Transcript</h2>{render_transcript(transcript)}"
    terminals = "".join(
        render_terminal(f"cast-{number}", recording) + render_recording(f"cast-{number}", recording)
        for number, recording in enumerate(recordings)
    )
    terminal_section = f'<section class="terminals"><h2>Terminals</h2>{terminals}</section>' if recordings else ""
    body = (
        f'<p class="way"><a href="../../index.html">runs</a> / <a href="../index.html">{escape(run)}</a></p>'
        f'<h1 class="{test.status}"><span class="status">{test.status}</span> {escape(test.name)}</h1>'
        f'<p>{test.seconds:.1f} s</p><div class="columns"><section class="about">{"".join(description)}</section>'
        f'<section class="did">{transcript_html}</section>{terminal_section}</div>'
    )
    return render_page(test.name, body, "../../", plays=bool(recordings) and player_or_last_screen.has_player())


def render_transcript(text: str) -> str:
    """Return a transcript with a class for each kind of line."""
    rows = []
    for row in text.removesuffix("\n").split("\n"):
        kind = _LINE_CLASSES.get(row[:2], "output")
        if kind == "code" and row != "? 0":
            kind = "code bad"
        rows.append(f'<div class="{kind}">{escape(row) or "&nbsp;"}</div>')
    return f'<div class="transcript">{"".join(rows)}</div>'


def render_terminal(key: str, recording: Recording) -> str:
    """Return the element for the player, or the last screen if the player is not installed.

    `render_recording` returns the data that the player needs.
    """
    cut_note = '<p class="note">Only the beginning of the recording is shown.</p>' if recording.is_cut else ""
    title = f"<h3>{escape(recording.name)}</h3>{cut_note}"
    if player_or_last_screen.has_player():
        return f'{title}<div class="player" data-cast="{escape(key)}"></div>'
    note = '<p class="note">The player is not installed; this is how the screen looked in the end.</p>'
    return f'{title}{note}<pre class="screen">{escape(player_or_last_screen.render_last_screen(recording.text))}</pre>'


def render_recording(key: str, recording: Recording) -> str:
    """Return a recording as the data that the page's player reads."""
    if not player_or_last_screen.has_player():
        return ""
    data = json.dumps(strip_direction_controls(recording.text)).replace("<", "\\u003c")
    return f'<script type="application/json" id="{escape(key)}">{data}</script>'


def render_counts(tests: list[E2eTest]) -> str:
    """Return how many tests have each status."""
    counts = [(status, sum(test.status == status for test in tests)) for status in STATUS_ORDER]
    return ", ".join(
        f'<span class="{status}"><span class="status">{count} {status}</span></span>'
        for status, count in counts
        if count
    )


def render_page(title: str, body: str, up: str, *, plays: bool = False, head: str = "") -> str:
    """Return a whole page around a body. `up` leads to the first page, `head` is added to the HTML head."""
    player_tags = (
        f'<link rel="stylesheet" href="{up}static/{player_or_last_screen.STYLE}"><script defer src="{up}static/{player_or_last_screen.SCRIPT}"></script>'
        if plays
        else ""
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>"
        f'<link rel="icon" href="data:,"><link rel="stylesheet" href="{up}static/page.css">{player_tags}'
        f'<script defer src="{up}static/page.js"></script>{head}</head><body><main>{body}</main></body></html>\n'
    )
