"""The blocks of the tutorial that tests cite: what users do that the tests are about."""

from __future__ import annotations

from collections.abc import Iterable

from mngr.host.protocol import Host
from mngr.tmr.commits.trees import files_at
from mngr.tutorial.citations import parse_tests

_LARGEST = 1 << 22  # bytes of a file that is read


def cited(local: Host, repo: str, commit: str, tests: Iterable[str]) -> dict[str, list[str]]:
    """The blocks of each test that cites one, as its file is at a commit."""
    wanted = set(tests)
    found: dict[str, list[str]] = {}
    paths = {test.partition("::")[0] for test in wanted}
    for path, data in files_at(local, repo, commit, paths, _LARGEST).items() if paths else ():
        for citation in parse_tests(data, path).citations:
            if citation.test in wanted:
                found.setdefault(citation.test, []).append(citation.text.strip("\n"))
    return found
