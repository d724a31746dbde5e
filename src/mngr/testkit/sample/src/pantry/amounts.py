"""Parse and print amounts."""


def parse(text: str) -> float:
    """Return the number that a person typed; raise ValueError if it is not a number."""
    return int(text)


def show(amount: float, unit: str) -> str:
    """Return the number as text, with its unit if it has one."""
    return f"{amount:g} {unit}".strip()
