from tree import Node


def check_sum(node, total, depth):
    assert node.total() == total
    assert node.depth() == depth


def test_totals():
    """A node sums up itself and what is below."""
    check_sum(Node(1, [Node(2), Node(3, [Node(4)])]), 10, 3)
