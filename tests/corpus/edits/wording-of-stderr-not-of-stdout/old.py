import subprocess


def test_depth_of_a_well():
    """The depth is printed on stdout. The wording of warnings on stderr is not promised."""
    proc = subprocess.run(["well", "depth", "north"], capture_output=True, text=True)
    assert proc.returncode == 0
    assert proc.stdout == "the well north is 12 m deep\n"
