from desk import Desk


class View:
    def __init__(self, desk):
        self.desk = desk

    @property
    def drawers(self):
        return [self.desk.drawer(1), self.desk.drawer(2)]


def test_desk_is_empty():
    """A new desk is empty."""
    desk = Desk()
    assert desk.drawer(1) == []
    assert desk.drawer(2) == []
    assert View(desk).drawers == [[], []]
