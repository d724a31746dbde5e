"""The blocks of the tutorial that tests cite: what users do that the tests are about."""

from __future__ import annotations

from mngr import git
from mngr.tutorial.citations import parse_tests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from mngr.host import Host


def cited(local: Host, repo: str, commit: str, tests: Iterable[str]) -> dict[str, list[str]]:
    """The blocks of each test that cites one, as its file is at a commit."""
    wanted = set(tests)
    found: dict[str, list[str]] = {}
    for path in sorted({test.partition("::")[0] for test in wanted}):
        blob = git.run(local, repo, "cat-file", "blob", f"{commit}:{path}")
        for citation in parse_tests(blob.out, path).citations if blob.code == 0 else ():
            if citation.test in wanted:
                found.setdefault(citation.test, []).append(citation.text.strip("\n"))
    return found
