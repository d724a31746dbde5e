import pytest

from relay import Client


@pytest.fixture
def client():
    made = []

    def make(name):
        made.append(Client(name))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_two_clients_talk(client):
    """What one says the other hears."""
    ada, bob = client("ada"), client("bob")
    ada.say("bob", "hi")
    assert bob.heard() == ["hi"]
