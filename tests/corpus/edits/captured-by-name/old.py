from hail import main


def test_hail(capsys):
    """A hail is printed, and nothing else."""
    main(["hail", "Ada"])
    out, err = capsys.readouterr()
    assert out == "hail, Ada\n"
    assert err == ""
