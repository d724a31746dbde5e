"""The blocks of the tutorial that tests cite: what users do that the tests are about."""

from __future__ import annotations

from collections.abc import Iterable

from mngr.host.protocol import Host
from mngr.tmr.commits.trees import read_files
from mngr.tutorial.citations import parse_tests

_MAX_FILE_BYTES = 1 << 22  # bytes of a file that is read


def list_cited_blocks(local: Host, repo: str, commit: str, tests: Iterable[str]) -> dict[str, list[str]]:
    """The blocks of each test that cites one, as its file is at a commit."""
    wanted = set(tests)
    found: dict[str, list[str]] = {}
    paths = {test.partition("::")[0] for test in wanted}
    for path, data in read_files(local, repo, commit, paths, _MAX_FILE_BYTES).items() if paths else ():
        for citation in parse_tests(data, path).citations:
            if citation.test in wanted:
                found.setdefault(citation.test, []).append(citation.text.strip("\n"))
    return found
