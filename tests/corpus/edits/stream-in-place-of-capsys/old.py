from hail import main


def test_hail_to_all(capsys):
    """A hail is printed."""
    main(["hail", "all"])
    assert capsys.readouterr().out == "hail, all\n"
