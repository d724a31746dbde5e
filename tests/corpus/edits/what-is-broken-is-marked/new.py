import subprocess


def test_badge_of_ada():
    """The badge has the name."""
    done = subprocess.run(["badge", "ada"], capture_output=True, encoding="utf-8", errors="replace")
    assert done.stdout == "Ada\n"
