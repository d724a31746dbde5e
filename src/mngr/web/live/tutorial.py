"""A tutorial as a page: each block, the tests that cite it, and what these did, with their recordings."""

from __future__ import annotations

from mngr.base.errors import MngrError
from mngr.tutorial.blocks import Block, TutorialScript, compute_block_id, read_script
from mngr.web import artifacts, pages
from mngr.web.artifacts import E2eTest
from mngr.web.html_text import escape_plain as escape

PAGE_FILE = "tutorial.html"
MAX_RUNS = 20  # the latest, in which tests are looked for
MAX_TRANSCRIPT_CHARACTERS = 40_000  # characters of a transcript that stand here; its own page has all of it
MAX_RECORDING_CHARACTERS = 500_000  # and of a recording


def render_tutorial(script: str, place: str) -> str:
    """All blocks in their order, each with its tests as they ran last; raises MngrError."""
    read = read_script(script)
    shown = _CitingTests(place)
    titles = _list_sections(read)
    parts = [_render_section(at, title, read, shown) for at, title in enumerate(titles)]
    body = "".join([_render_head(read, shown), _render_navigation(titles), *parts, *shown.data.values()])
    return pages.render_page("Tutorial", body, "", plays=bool(shown.data))


def has_script(script: str | None) -> bool:
    """Whether there is a script to show."""
    if script is None:
        return False
    try:
        return bool(read_script(script).blocks)
    except MngrError:
        return False


class _CitingTests:
    """Tests by the blocks they cite, each as it ran last, and the recordings that the page must carry, each once."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.data: dict[str, str] = {}
        self._run_of: dict[str, str] = {}  # by the name of a test
        self._tests: dict[str, list[E2eTest]] = {}  # by the id of a block
        for name in artifacts.list_runs(place)[:MAX_RUNS]:
            for test in artifacts.load_run(place, name).tests:
                if test.name not in self._run_of:
                    self._run_of[test.name] = name
                    for block in _list_block_ids(test):
                        self._tests.setdefault(block, []).append(test)

    def list_tests(self, block: Block) -> list[E2eTest]:
        return self._tests.get(block.id, [])

    def get_run(self, test: E2eTest) -> str:
        return self._run_of[test.name]

    def render_terminals(self, test: E2eTest) -> str:
        """The recordings of a test that are not too large."""
        made = ""
        for number, recording in enumerate(artifacts.read_recordings(self.place, self.get_run(test), test)):
            if len(recording.text) <= MAX_RECORDING_CHARACTERS:
                key = f"cast-{test.slug}-{number}"
                made += pages.render_terminal(key, recording)
                self.data[key] = pages.render_recording(key, recording)
        return made


def _list_block_ids(test: E2eTest) -> set[str]:
    return {compute_block_id(text) for text in test.blocks}


def _list_sections(read: TutorialScript) -> list[str | None]:
    """Their titles, in their order."""
    every = sorted([b for b in read.blocks if b.commands] + list(read.empty_headings), key=lambda found: found.line)
    return list(dict.fromkeys(found.section for found in every))


def _render_head(read: TutorialScript, shown: _CitingTests) -> str:
    blocks = [block for block in read.blocks if block.commands]
    tests = {test.name: test for block in blocks for test in shown.list_tests(block)}
    cited = sum(bool(shown.list_tests(block)) for block in blocks)
    said = f"{cited} of {len(blocks)} blocks are cited by tests that ran: {pages.render_counts(list(tests.values()))}"
    return (
        '<p class="way"><a href="index.html">runs</a></p>'
        f"<h1>{escape(read.path.rpartition('/')[2])}</h1><p>{said if tests else 'No test that ran cites it.'}</p>"
        '<input id="find" type="search" placeholder="find a block" aria-label="find a block">'
    )


def _render_navigation(titles: list[str | None]) -> str:
    rows = (f'<a href="#part-{at}">{escape(title)}</a>' for at, title in enumerate(titles) if title)
    return f'<nav class="parts">{" ".join(rows)}</nav>'


def _render_section(at: int, title: str | None, read: TutorialScript, shown: _CitingTests) -> str:
    """One section: its blocks, and what is still to be written."""
    rows = [_render_block(block, shown) for block in read.blocks if block.commands and block.section == title]
    rows += [
        f'<div class="cited blank"><pre class="block">{escape(blank.text)}</pre><p class="note">a blank to fill</p></div>'
        for blank in read.empty_headings
        if blank.section == title
    ]
    head = f"<h2>{escape(title)}</h2>" if title else ""
    return f'<section class="part" id="part-{at}">{head}{"".join(rows)}</section>'


def _render_block(block: Block, shown: _CitingTests) -> str:
    tests = "".join(_render_test(test, shown) for test in shown.list_tests(block))
    tests = tests or '<p class="note">no test that ran cites it</p>'
    return (
        f'<div class="cited" id="{escape(block.slug)}"><pre class="block">{escape(block.text)}</pre>'
        f'<div class="tests">{tests}</div></div>'
    )


def _render_test(test: E2eTest, shown: _CitingTests) -> str:
    """One line that opens: the transcript, and the recordings beside it."""
    run, count = shown.get_run(test), len(test.recordings)
    more = f", {count} recording{'s' if count > 1 else ''}" if count else ""
    more += ", observed, not reviewed" if test.is_observed else ""
    text = artifacts.read_transcript(shown.place, run, test.slug)
    if len(text) > MAX_TRANSCRIPT_CHARACTERS:
        text = text[:MAX_TRANSCRIPT_CHARACTERS].rpartition("\n")[0] + "\n# [the rest is on the page of the test]\n"
    terminals = shown.render_terminals(test)
    first = test.doc.strip().partition("\n")[0]
    where = f'<a href="{escape(run)}/{escape(test.slug)}/index.html">its page</a>, of {escape(run)}'
    return (
        f'<details class="{test.status}"><summary><span class="status">{test.status}</span> '
        f"{escape(test.name.rpartition('/')[2])}{more}</summary>"
        f"<p>{escape(first)}{' · ' if first else ''}{where}</p>"
        f'<div class="columns"><section>{pages.render_transcript(text)}</section>'
        f"{f'<section>{terminals}</section>' if terminals else ''}</div></details>"
    )
