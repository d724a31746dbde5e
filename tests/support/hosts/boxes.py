"""A small engine with a command line, whose hosts are directories. It can be full, slow or unreachable."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

# box.sh VERB …: the boxes are next to it. File `full` limits their number, `away` makes it unreachable, `deaf` makes
# `list` fail, `slow` delays `create`. `mute-NAME` makes a box ignore programs with these
# words in them, and its shell runs `lie-NAME` first.
PROGRAM = r"""
root=${0%/*}; what=$1 name=$2; shift
[ ! -e "$root/away" ] || { echo "no answer" >&2; exit 1; }
echo "$what $name" >>"$root/calls"
box=$root/boxes/$name
case $what in
create)
    mkdir "$box" && echo "$2" >"$box/tag"
    if [ -e "$root/full" ] && [ "$(ls "$root/boxes" | wc -l)" -gt "$(cat "$root/full")" ]; then
        rm -r "$box"; echo "all boxes are taken" >&2; exit 75
    fi
    if [ "$3" ]; then cp -a "$root/images/$3" "$box/home"; else mkdir "$box/home"; fi
    while [ -e "$root/slow" ]; do sleep 0.05; done
    echo "$name" ;;
exec)
    [ -d "$box" ] || { echo "there is no box $name" >&2; exit 1; }
    [ ! -e "$box/stopped" ] || { echo "$name is stopped" >&2; exit 1; }
    mute=$root/mute-$name
    if [ -e "$mute" ] && words=$(cat "$mute"); then
        case $2 in *"$words"*)
            echo "mute $name" >>"$root/calls"
            while [ -e "$mute" ]; do sleep 0.1; done
            echo "no answer" >&2; exit 1 ;;
        esac
    fi
    if [ -e "$root/lie-$name" ]; then set -- "$1" "$(cat "$root/lie-$name"; echo; echo "$2")"; fi
    unset MNGR_HOME; cd "$box/home" && HOME=$PWD exec sh -c "$2" ;;
list) [ ! -e "$root/deaf" ] || exit 1; cd "$root/boxes" && for one in *; do [ ! -d "$one" ] || echo "$one $(cat "$one/tag")"; done ;;
start) [ -d "$box" ] || { echo "there is no box $name" >&2; exit 1; }; rm -f "$box/stopped" ;;
stop) touch "$box/stopped" ;;
destroy)
    socket=$(readlink "$box/home/.mngr/tmux.socket") && tmux -S "$socket" kill-server 2>/dev/null
    mv "$box" "$root/gone-$name" # at once: who looks meanwhile must not see a box without its files
    chmod -R u+w "$root/gone-$name" && rm -rf "$root/gone-$name" ;;
snapshot) cp -a "$box/home" "$root/images/$2" && echo "$2" ;;
drop_snapshot) rm -rf "$root/images/$name" ;;
esac
"""


class Boxes:
    """The engine in a directory."""

    def __init__(self, directory: Path) -> None:
        self.place, self.boxes, self.images = directory, directory / "boxes", directory / "images"
        self.boxes.mkdir(parents=True)
        self.images.mkdir()
        (directory / "box.sh").write_text(PROGRAM)
        box = ["sh", str(directory / "box.sh")]
        words: dict[str, list[str | list[str]]] = {
            "create": ["{name}", "{tag}", ["{image}"]],
            "exec": ["{id}", "{program}"],
            "exec_terminal": ["{id}", "{program}"],
            "list": [],
            "start": ["{id}"],
            "stop": ["{id}"],
            "destroy": ["{id}"],
            "snapshot": ["{id}", "{snapshot}"],
            "drop_snapshot": ["{snapshot}"],
        }
        self.settings = {
            "kind": "template",
            **{key: [*box, key, *more] for key, more in words.items()},
            "busy": 75,
            "gone": "there is no box",
            "stopped": "is stopped",
            "away": "no answer",
            "cost_per_hour": 360,
        }

    @property
    def env(self) -> dict[str, str]:
        """The settings of a provider `box` as variables."""
        return {f"MNGR__PROVIDERS__BOX__{k.upper()}": json.dumps(v) for k, v in self.settings.items()}

    def mute(self, host: str, words: str = "") -> Path:
        """Make a box ignore programs with these words in them, until the returned file is deleted."""
        file = self.place / f"mute-{host}"
        file.write_text(words)
        return file

    def lie(self, host: str, program: str) -> None:
        """Make a box run this code before every program, for example a function that replaces a command."""
        (self.place / f"lie-{host}").write_text(program)

    def lose(self, host: str) -> None:
        """Destroy a box with everything that runs in it."""
        subprocess.run(["sh", str(self.place / "box.sh"), "destroy", host], check=True)

    def calls(self, verb: str) -> list[str]:
        """Return the hosts for which the engine got this verb."""
        rows = (self.place / "calls").read_text().splitlines() if (self.place / "calls").exists() else []
        return [row.partition(" ")[2] for row in rows if row.partition(" ")[0] == verb]

    def left(self) -> list[str]:
        """Return the remaining boxes and images."""
        return sorted(path.name for directory in (self.boxes, self.images) for path in directory.iterdir())
