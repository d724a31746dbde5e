"""Small windows that ask for a text or a confirmation, or show the keys."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

_BOX = """
    align: center middle;
}
{name} > * {
    width: 90%; max-width: 100; height: auto; max-height: 90%;
    border: round $accent; padding: 0 1; background: $surface;
"""


class TextDialog(ModalScreen[str | None]):
    """Asks for one line of text. The result is None if the person cancels."""

    DEFAULT_CSS = "TextDialog {" + _BOX.replace("{name}", "TextDialog") + "}"
    BINDINGS = [Binding("escape", "dismiss(None)", "Cancel")]

    def __init__(self, title: str, placeholder: str = "", value: str = "") -> None:
        super().__init__()
        self._title, self._placeholder, self._value = title, placeholder, value

    def compose(self) -> ComposeResult:
        """Create the question and the input."""
        with Vertical():
            yield Static(Text(self._title, style="bold"))
            yield Input(self._value, placeholder=self._placeholder)
            yield Static(Text("Enter: send, Escape: cancel", style="dim"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the text."""
        self.dismiss(event.value)


class ConfirmDialog(ModalScreen[bool]):
    """Asks a yes-or-no question. Only the key `y` means yes."""

    DEFAULT_CSS = "ConfirmDialog {" + _BOX.replace("{name}", "ConfirmDialog") + "}"
    BINDINGS = [Binding("y", "dismiss(True)", "Yes"), Binding("n,escape,q", "dismiss(False)", "No")]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Create the question."""
        with Vertical():
            yield Static(Text(self._question, style="bold"))
            yield Static(Text("y: yes, n: no", style="dim"))


class HelpDialog(ModalScreen[None]):
    """Shows all keys."""

    DEFAULT_CSS = "HelpDialog {" + _BOX.replace("{name}", "HelpDialog") + "}"
    BINDINGS = [Binding("escape,q,question_mark,enter", "dismiss(None)", "Close")]

    def __init__(self, keys: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._keys = keys

    def compose(self) -> ComposeResult:
        """Create the table of keys."""
        with VerticalScroll():
            for key, text in self._keys:
                line = Text(f"{key:<16}", style="bold")
                line.append(text, "not bold")
                yield Static(line)
