"""A tutorial as a page: each block, the tests that cite it, and from there what they did."""

from __future__ import annotations

from html import escape

from mngr.errors import MngrError
from mngr.tutorial.blocks import block_id, read_script
from mngr.web import pages, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.tutorial.blocks import Block
    from mngr.web.runs import Run, Test

FILE = "tutorial.html"


def page(script: str, place: str) -> str:
    """All blocks in their order, with the tests of the latest run that has any; raises MngrError."""
    read = read_script(script)
    run = _latest(place, {block.id for block in read.blocks})
    parts = [
        '<p class="way"><a href="index.html">runs</a></p>',
        f"<h1>{escape(read.path.rpartition('/')[2])}</h1>",
    ]
    parts.append(f"<p>with the tests of {_link(run)}</p>" if run else "<p>No run has tests that cite it.</p>")
    section: str | None = None
    for block in read.blocks:
        if not block.commands:
            continue
        if block.section != section:
            section = block.section
            parts.append(f"<h2>{escape(section or '')}</h2>")
        parts.append(_block(block, run))
    return pages.page("Tutorial", "".join(parts), "")


def exists(script: str | None) -> bool:
    """Whether there is a script to show."""
    if script is None:
        return False
    try:
        return bool(read_script(script).blocks)
    except MngrError:
        return False


def _latest(place: str, known: set[str]) -> Run | None:
    for name in runs.list_runs(place)[:20]:
        run = runs.load_run(place, name)
        if any(_ids(test) & known for test in run.tests):
            return run
    return None


def _ids(test: Test) -> set[str]:
    return {block_id(text) for text in test.blocks}


def _block(block: Block, run: Run | None) -> str:
    tests = [test for test in run.tests if block.id in _ids(test)] if run else []
    rows = "".join(
        f'<li class="{test.status}"><span class="status">{test.status}</span> '
        f'<a href="{escape(run.name)}/{escape(test.slug)}/index.html">{escape(test.name)}</a>'
        f"{_terminals(test)}</li>"
        for test in tests
        if run
    )
    shown = f"<ul>{rows}</ul>" if rows else '<p class="note">no test of this run cites it</p>'
    return f'<div class="cited" id="{escape(block.slug)}"><pre class="block">{escape(block.text)}</pre>{shown}</div>'


def _terminals(test: Test) -> str:
    count = len(test.recordings)
    return f", {count} recording{'s' if count > 1 else ''}" if count else ""


def _link(run: Run) -> str:
    return f'<a href="{escape(run.name)}/index.html">{escape(run.name)}</a>'
