from page import render


def test_text_is_escaped():
    """What a user wrote is shown as it is."""
    made = render("Tom and Jerry")
    assert made.text == "Tom and Jerry"
