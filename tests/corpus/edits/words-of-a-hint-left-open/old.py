import subprocess


def test_hint_names_the_option():
    """Without a depth the status is 2, and a hint on stderr names --depth. Hints may be reworded: do not rely on their text."""
    done = subprocess.run(["rig", "dig"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "rig: how deep? try --depth 3\n"
