import subprocess


def squeeze(text):
    return "".join(text.casefold().split())


def test_name_of_the_shed():
    """The name is printed as it was given."""
    out = subprocess.run(["shed", "name"], capture_output=True, text=True, check=True).stdout
    assert squeeze(out) == squeeze("North Shed\n")
