from hail import main


def test_hail(capsys):
    """A hail is printed, and nothing else."""
    main(["hail", "Ada"])
    said = capsys.readouterr()
    assert said.out == "hail, Ada\n"
    assert said.err == ""
