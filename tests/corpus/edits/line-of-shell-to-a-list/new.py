import subprocess


def test_title_is_kept():
    """A title may have blanks in it."""
    done = subprocess.run(
        ["folio", "add", "green tea", "--shelf", "2"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "added green tea to shelf 2\n"
