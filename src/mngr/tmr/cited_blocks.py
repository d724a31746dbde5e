"""Finds the blocks of the tutorial that tests cite. A block shows what users do; the test checks it."""

from __future__ import annotations

from collections.abc import Iterable

from mngr.host.protocol import Host
from mngr.tmr.commits.trees import read_files
from mngr.tutorial.citations import parse_tests

_MAX_FILE_BYTES = 1 << 22  # larger files are not read


def list_cited_blocks(local: Host, repo: str, commit: str, tests: Iterable[str]) -> dict[str, list[str]]:
    """Return the cited blocks by test, as the test files are at the commit. Tests without citations are missing."""
    wanted = set(tests)
    blocks: dict[str, list[str]] = {}
    paths = {test.partition("::")[0] for test in wanted}
    for path, data in read_files(local, repo, commit, paths, _MAX_FILE_BYTES).items() if paths else ():
        for citation in parse_tests(data, path).citations:
            if citation.test in wanted:
                blocks.setdefault(citation.test, []).append(citation.text.strip("\n"))
    return blocks
