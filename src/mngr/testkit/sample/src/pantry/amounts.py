"""How much of something there is."""


def parse(text: str) -> float:
    """A number of units, as somebody typed it; ValueError when it is none."""
    return int(text)


def show(amount: float, unit: str) -> str:
    """The number as one would write it, with its unit where it has one."""
    return f"{amount:g} {unit}".strip()
