"""Renders a tutorial as a page: each block, the tests that cite it, their transcripts and recordings."""

from __future__ import annotations

from mngr.base.errors import MngrError
from mngr.tutorial.blocks import Block, TutorialScript, compute_block_id, read_script
from mngr.web import artifacts, e2e_run_pages
from mngr.web.artifacts import E2eTest
from mngr.web.html_text import escape_plain as escape

PAGE_FILE = "tutorial.html"
MAX_RUNS = 20  # The number of latest runs to search for tests.
MAX_TRANSCRIPT_CHARACTERS = 40_000  # Of a transcript; the test's own page has all of it.
MAX_RECORDING_CHARACTERS = 500_000  # The page leaves out a longer recording.


def render_tutorial(script_path: str, artifacts_dir: str) -> str:
    """Return the page with all blocks in order, each with the latest results of its tests."""
    script = read_script(script_path)
    citing_tests = _CitingTests(artifacts_dir)
    titles = _list_sections(script)
    parts = [_render_section(index, title, script, citing_tests) for index, title in enumerate(titles)]
    body = "".join(
        [_render_head(script, citing_tests), _render_navigation(titles), *parts, *citing_tests.data.values()]
    )
    return e2e_run_pages.render_page("Tutorial", body, "", plays=bool(citing_tests.data))


def has_script(script: str | None) -> bool:
    """True when the script has at least one block and can be read."""
    if script is None:
        return False
    try:
        return bool(read_script(script).blocks)
    except MngrError:
        return False


class _CitingTests:
    """The tests that cite each block, as they ran last, and the recordings that the page must contain."""

    def __init__(self, artifacts_dir: str) -> None:
        self.place = artifacts_dir
        self.data: dict[str, str] = {}
        self._run_of: dict[str, str] = {}  # By the name of a test.
        self._tests: dict[str, list[E2eTest]] = {}  # By the id of a block.
        for run in artifacts.list_runs(artifacts_dir)[:MAX_RUNS]:
            for test in artifacts.load_run(artifacts_dir, run).tests:
                if test.name not in self._run_of:
                    self._run_of[test.name] = run
                    for block_id in _list_block_ids(test):
                        self._tests.setdefault(block_id, []).append(test)

    def list_tests(self, block: Block) -> list[E2eTest]:
        return self._tests.get(block.id, [])

    def get_run(self, test: E2eTest) -> str:
        return self._run_of[test.name]

    def render_terminals(self, test: E2eTest) -> str:
        """Return the recordings of a test that are not too large, and keep their data for the page."""
        html = ""
        for number, recording in enumerate(artifacts.read_recordings(self.place, self.get_run(test), test)):
            if len(recording.text) <= MAX_RECORDING_CHARACTERS:
                key = f"cast-{test.slug}-{number}"
                html += e2e_run_pages.render_terminal(key, recording)
                self.data[key] = e2e_run_pages.render_recording(key, recording)
        return html


def _list_block_ids(test: E2eTest) -> set[str]:
    return {compute_block_id(text) for text in test.blocks}


def _list_sections(script: TutorialScript) -> list[str | None]:
    """Return the titles of the sections in order."""
    items = sorted(
        [block for block in script.blocks if block.commands] + list(script.empty_headings), key=lambda item: item.line
    )
    return list(dict.fromkeys(item.section for item in items))


def _render_head(script: TutorialScript, citing_tests: _CitingTests) -> str:
    blocks = [block for block in script.blocks if block.commands]
    tests = {test.name: test for block in blocks for test in citing_tests.list_tests(block)}
    cited_count = sum(bool(citing_tests.list_tests(block)) for block in blocks)
    summary = f"{cited_count} of {len(blocks)} blocks are cited by recorded tests: {e2e_run_pages.render_counts(list(tests.values()))}"
    return (
        '<p class="way"><a href="index.html">runs</a></p>'
        f"<h1>{escape(script.path.rpartition('/')[2])}</h1><p>{summary if tests else 'No recorded test cites this tutorial.'}</p>"
        '<input id="find" type="search" placeholder="find a block" aria-label="find a block">'
    )


def _render_navigation(titles: list[str | None]) -> str:
    links = (f'<a href="#part-{index}">{escape(title)}</a>' for index, title in enumerate(titles) if title)
    return f'<nav class="parts">{" ".join(links)}</nav>'


def _render_section(index: int, title: str | None, script: TutorialScript, citing_tests: _CitingTests) -> str:
    """Return one section with its blocks and its headings without blocks."""
    rows = [_render_block(block, citing_tests) for block in script.blocks if block.commands and block.section == title]
    rows += [
        f'<div class="cited blank"><pre class="block">{escape(heading.text)}</pre><p class="note">no block yet</p></div>'
        for heading in script.empty_headings
        if heading.section == title
    ]
    title_html = f"<h2>{escape(title)}</h2>" if title else ""
    return f'<section class="part" id="part-{index}">{title_html}{"".join(rows)}</section>'


def _render_block(block: Block, citing_tests: _CitingTests) -> str:
    tests = "".join(_render_test(test, citing_tests) for test in citing_tests.list_tests(block))
    tests = tests or '<p class="note">no test that ran cites it</p>'
    return (
        f'<div class="cited" id="{escape(block.slug)}"><pre class="block">{escape(block.text)}</pre>'
        f'<div class="tests">{tests}</div></div>'
    )


def _render_test(test: E2eTest, citing_tests: _CitingTests) -> str:
    """Return one line that opens to show the transcript with the recordings beside it."""
    run = citing_tests.get_run(test)
    notes = _describe_recordings(len(test.recordings))
    if test.is_observed:
        notes += ", generated from observed output, not reviewed"
    text = artifacts.read_transcript(citing_tests.place, run, test.slug)
    if len(text) > MAX_TRANSCRIPT_CHARACTERS:
        text = text[:MAX_TRANSCRIPT_CHARACTERS].rpartition("\n")[0] + "\n# [the page of the test shows the rest]\n"
    terminals = citing_tests.render_terminals(test)
    first_line = test.doc.strip().partition("\n")[0]
    page_link = f'<a href="{escape(run)}/{escape(test.slug)}/index.html">its page</a>, of {escape(run)}'
    about = f"{escape(first_line)} · {page_link}" if first_line else page_link
    terminal_section = f"<section>{terminals}</section>" if terminals else ""
    return (
        f'<details class="{test.status}"><summary><span class="status">{test.status}</span> '
        f"{escape(test.name.rpartition('/')[2])}{notes}</summary><p>{about}</p>"
        f'<div class="columns"><section>{e2e_run_pages.render_transcript(text)}</section>{terminal_section}</div></details>'
    )


def _describe_recordings(count: int) -> str:
    if count == 0:
        return ""
    return ", 1 recording" if count == 1 else f", {count} recordings"
