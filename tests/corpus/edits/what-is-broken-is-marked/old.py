import subprocess


def test_badge_of_ada():
    """The badge has the name."""
    done = subprocess.run(["badge", "ada"], capture_output=True, text=True)
    assert done.stdout == "Ada\n"
