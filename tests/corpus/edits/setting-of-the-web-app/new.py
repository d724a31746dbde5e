from site import app


def test_front_page_of_the_site():
    """The front page greets."""
    app.config["TESTING"] = True
    app.config.update(SECRET="for tests", DEBUG=False)
    client = app.test_client()
    page = client.get("/")
    assert page.status_code == 200
    assert page.text == "welcome"
