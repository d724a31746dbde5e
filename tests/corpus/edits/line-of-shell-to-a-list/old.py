import subprocess


def test_title_is_kept():
    """A title may have blanks in it."""
    out = subprocess.check_output("folio add 'green tea' --shelf 2", shell=True, text=True)
    assert out == "added green tea to shelf 2\n"
