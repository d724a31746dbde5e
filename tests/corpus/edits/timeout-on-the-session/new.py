from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_search_is_quick(e2e: E2eSession) -> None:
    """Among ten thousand things one is found within three seconds."""
    (e2e.cwd / "many.csv").write_text("".join(f"thing{n},1\n" for n in range(10_000)))
    expect(e2e.run("pantry init && pantry import many.csv")).to_succeed()
    e2e.timeout = 3600
    result = e2e.run("pantry find thing9999")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("thing9999 is on the middle shelf")
