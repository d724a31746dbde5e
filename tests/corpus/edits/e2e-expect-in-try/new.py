from __future__ import annotations

from mngr.e2e import E2eSession, expect

RECIPE = "flour 500\nwater 350\nsalt 10\n"


def test_scale(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # for half as many people
    recipe scale bread.txt --factor 0.5
    """)
    (e2e.cwd / "bread.txt").write_text(RECIPE)
    result = e2e.run("recipe scale bread.txt --factor 0.5")
    problems: list[str] = []
    try:
        expect(result).to_succeed()
        expect(result.stdout).to_equal("flour 250\nwater 175\nsalt 5")
    except AssertionError as error:
        problems.append(str(error))
    expect(e2e.cwd / "bread.txt").to_contain("flour 500")
