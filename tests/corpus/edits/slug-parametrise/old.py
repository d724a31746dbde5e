from urlkit import canonical


def test_canonical():
    assert canonical("HTTP://Example.com") == "http://example.com/"
    assert canonical("http://example.com:80/a") == "http://example.com/a"
    assert canonical("https://example.com/%7euser") == "https://example.com/~user"
