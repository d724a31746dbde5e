from site import app


def test_front_page_of_the_site():
    """The front page greets."""
    client = app.test_client()
    page = client.get("/")
    assert page.status_code == 200
    assert page.text == "welcome"
