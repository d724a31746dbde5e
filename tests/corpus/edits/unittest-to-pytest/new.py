import pytest

from stack import Stack


@pytest.fixture
def stack():
    return Stack()


def test_last_in_first_out(stack):
    stack.push(1)
    stack.push(2)
    assert stack.pop() == 2
    assert stack.pop() == 1


def test_empty(stack):
    assert stack.empty
    with pytest.raises(IndexError):
        stack.pop()
