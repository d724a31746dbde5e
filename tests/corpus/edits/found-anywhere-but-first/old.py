import subprocess


def test_help_names_the_option():
    """The help names --depth."""
    out = subprocess.run(["rig", "--help"], capture_output=True, text=True, check=True).stdout
    assert "--depth" in out
