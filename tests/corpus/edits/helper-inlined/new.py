from tree import Node


def test_totals():
    """A node sums up itself and what is below."""
    node = Node(1, [Node(2), Node(3, [Node(4)])])
    assert node.total() == 10
    assert node.depth() == 3
