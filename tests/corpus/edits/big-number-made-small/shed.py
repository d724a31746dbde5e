class Stack:
    def __init__(self, height):
        self.height = height


def stack(boxes):
    """Stack boxes. The shed has a roof, but a stack may go through it."""
    full, rest = divmod(boxes, 1000)
    return Stack(full * 1000 + rest)
