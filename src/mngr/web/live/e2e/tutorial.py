"""Renders a tutorial as a page: each block, the tests that cite it, their transcripts and recordings."""

from __future__ import annotations

from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.tutorial.blocks import Block, EmptyHeading, TutorialScript, compute_block_id, read_script
from mngr.web import artifacts, e2e_run_pages
from mngr.web.artifacts import E2eTest
from mngr.web.e2e_run_pages import Terminal, TranscriptLine
from mngr.web.templates import render_template

PAGE_FILE = "tutorial.html"
MAX_RUNS = 20  # The number of latest runs to search for tests.
MAX_TRANSCRIPT_CHARACTERS = 40_000  # Of a transcript; the test's own page has all of it.
MAX_RECORDING_CHARACTERS = 500_000  # The page leaves out a longer recording.


class CitedTest(Struct):
    """A test that cites a block, as it ran last."""

    test: E2eTest
    run: str
    lines: list[TranscriptLine]
    terminals: list[Terminal]

    @property
    def short_name(self) -> str:
        """The name of the test without its directory."""
        return self.test.name.rpartition("/")[2]


class CitedBlock(Struct):
    """A block with the tests that cite it."""

    block: Block
    tests: list[CitedTest]


class TutorialSection(Struct):
    """A part of the tutorial with its blocks, and its headings without blocks."""

    number: int
    title: str | None
    blocks: list[CitedBlock]
    empty_headings: list[EmptyHeading]


class TutorialPage(Struct):
    """The facts on the page of a tutorial."""

    name: str
    block_count: int
    cited_count: int
    tests: list[E2eTest]  # Each test that cites a block, once.
    sections: list[TutorialSection]


def render_tutorial(script_path: str, artifacts_dir: str) -> str:
    """Return the page with all blocks in order, each with the latest results of its tests."""
    page = _build_page(read_script(script_path), _CitingTests(artifacts_dir))
    cited_tests = [test for section in page.sections for block in section.blocks for test in block.tests]
    plays = any(test.terminals for test in cited_tests)
    return render_template("e2e/tutorial.html", up="", plays=plays, page=page)


def has_readable_block(script: str | None) -> bool:
    """True when the script has at least one block and can be read."""
    if script is None:
        return False
    try:
        return bool(read_script(script).blocks)
    except MngrError:
        return False


class _CitingTests:
    """The tests that cite each block, as they ran last."""

    def __init__(self, artifacts_dir: str) -> None:
        self.place = artifacts_dir
        self._terminal_count = 0
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

    def load_cited_test(self, test: E2eTest) -> CitedTest:
        """Return a test with its transcript and its recordings, as far as they are not too large."""
        run = self.get_run(test)
        text = artifacts.read_transcript(self.place, run, test.slug)
        if len(text) > MAX_TRANSCRIPT_CHARACTERS:
            text = text[:MAX_TRANSCRIPT_CHARACTERS].rpartition("\n")[0] + "\n# [the page of the test shows the rest]\n"
        terminals = []
        for recording in artifacts.read_recordings(self.place, run, test):
            if len(recording.text) <= MAX_RECORDING_CHARACTERS:
                self._terminal_count += 1
                terminals.append(e2e_run_pages.build_terminal(f"cast-{self._terminal_count}", recording))
        return CitedTest(test=test, run=run, lines=e2e_run_pages.split_transcript(text), terminals=terminals)


def _list_block_ids(test: E2eTest) -> set[str]:
    return {compute_block_id(text) for text in test.blocks}


def _list_sections(script: TutorialScript) -> list[str | None]:
    """Return the titles of the sections in order."""
    items = sorted(
        [block for block in script.blocks if block.commands] + list(script.empty_headings), key=lambda item: item.line
    )
    return list(dict.fromkeys(item.section for item in items))


def _build_page(script: TutorialScript, citing_tests: _CitingTests) -> TutorialPage:
    blocks = [block for block in script.blocks if block.commands]
    tests = {test.name: test for block in blocks for test in citing_tests.list_tests(block)}
    return TutorialPage(
        name=script.path.rpartition("/")[2],
        block_count=len(blocks),
        cited_count=sum(bool(citing_tests.list_tests(block)) for block in blocks),
        tests=list(tests.values()),
        sections=[
            TutorialSection(
                number=number,
                title=title,
                blocks=[_build_block(block, citing_tests) for block in blocks if block.section == title],
                empty_headings=[heading for heading in script.empty_headings if heading.section == title],
            )
            for number, title in enumerate(_list_sections(script))
        ],
    )


def _build_block(block: Block, citing_tests: _CitingTests) -> CitedBlock:
    tests = [citing_tests.load_cited_test(test) for test in citing_tests.list_tests(block)]
    return CitedBlock(block=block, tests=tests)
