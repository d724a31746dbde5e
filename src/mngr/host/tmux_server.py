"""mngr's own tmux server. Each home has one, separate from the user's server."""

from __future__ import annotations

import os

from mngr.base.errors import MngrError
from mngr.base.paths import OTHER_HOME_HINT, build_socket_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.base.paths import Home
    from mngr.host.protocol import Host

WATCHER_SESSION = "_watcher"  # A hidden session. No agent can have this name.

_CONFIGURATION = """\
# Written by mngr; mngr overwrites changes. Add your own settings: mngr config set tmux.source FILE
set -g default-terminal tmux-256color
set -g default-size 200x50
set -g history-limit 10000
set -g remain-on-exit on
set -gq remain-on-exit-format ""
set -g update-environment ""
set -g window-size latest
set -g mouse on
set -g focus-events on
set -s extended-keys on
set -s escape-time 10
set -g allow-rename off
set -g automatic-rename off
set -g set-titles on
set -g set-titles-string "#{session_name} - mngr"
set -g status-style bg=colour236,fg=colour252
set -g status-left "#[bold] #{session_name} #[default] "
set -g status-left-length 70
set -g status-right "#{?pane_dead,#[bold]ended#[default] ,} detach: #{prefix} d "
set -g window-status-format " #{window_name} "
set -g window-status-current-format "#[reverse] #{window_name} "
# A paste into a pane whose program has ended brings the server down (seen with tmux 3.3a).
bind ] if -F "#{pane_dead}" "" "paste-buffer -p"
bind = choose-buffer -Z "if -F '#{pane_dead}' '' \\"paste-buffer -p -b '%%'\\""
bind -n MouseDown2Pane select-pane -t = \\; if -F "#{||:#{pane_in_mode},#{mouse_any_flag}}" "send -M" "if -F '#{pane_dead}' '' 'paste-buffer -p'"
"""


def get_socket_path(home: Home) -> str:
    """Return the server's socket, `/tmp/mngr-UID/HASH12`: short, and the same for all users of this home."""
    try:
        return os.readlink(home.socket_link)
    except OSError:
        return build_socket_path(os.path.realpath(home.root), os.getuid())


def build_configuration(source: str | None) -> str:
    """Return the text of the server's configuration. `source` is a file of the user that it includes."""
    return _CONFIGURATION + (f"source-file -q {_tmux_quote(source)}\n" if source else "")


def prepare_server_files(home: Home, source: str | None) -> str:
    """Write the server's configuration and the link to its socket, and return the socket's path."""
    socket = get_socket_path(home)
    conf = build_configuration(os.path.expanduser(source) if source else None)
    try:
        try:
            with open(home.tmux_conf, encoding="utf-8") as file:
                is_unchanged = file.read() == conf
        except FileNotFoundError:
            is_unchanged = False
        if not is_unchanged:
            temporary_path = f"{home.tmux_conf}.{os.getpid()}-{os.urandom(3).hex()}"
            with open(temporary_path, "w", encoding="utf-8") as file:
                file.write(conf)
            os.replace(temporary_path, home.tmux_conf)
        if not os.path.islink(home.socket_link):
            temporary_path = f"{home.socket_link}.{os.getpid()}-{os.urandom(3).hex()}"
            os.symlink(socket, temporary_path)
            os.replace(temporary_path, home.socket_link)
    except OSError as error:
        raise MngrError(f"cannot write to {home.root}: {error.strerror}", OTHER_HOME_HINT) from None
    return socket


def get_safe_socket(host: Host) -> str:
    """Return the socket of the host's server. Raise MngrError if another user owns its directory."""
    socket = host.tmux_socket
    directory = os.path.dirname(socket)
    if (
        host.is_local
        and os.path.lexists(directory)
        and (os.path.islink(directory) or os.stat(directory).st_uid != os.getuid())
    ):
        raise MngrError(
            f"{directory} does not belong to you, so mngr does not use it for tmux",
            f"ask its owner to run this command, and then run yours again: rm -r {directory}",
        )
    return socket


def build_argv(host: Host, *words: str) -> list[str]:
    """Return a tmux command for the host's server. Raise MngrError as `get_safe_socket` does."""
    return ["tmux", "-u", "-S", get_safe_socket(host), *words]


def quote_word(text: str, *, is_format: bool = False) -> str:
    """Return `text` as one word of a tmux command: a final `;` would end the command, and `#` starts a format."""
    text = text.replace("#", "##") if is_format else text
    return text[:-1] + "\\;" if text.endswith(";") else text


def _tmux_quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$") + '"'
