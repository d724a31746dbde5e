"""Attempts with links, special files and odd names in every place of an agent that mngr reads or writes."""

from __future__ import annotations

from tests.escapes.attempt import COPY, EVERY_VERB, LOOK, RESTART, SAVE, SYNC, TRAP, Attempt

_COMMIT = "echo more > more.txt; git add more.txt; git commit -qm more; echo dirty >> README.md\n"


def _build_link_attempt(path: str, goal: str, verbs: tuple[str, ...]) -> Attempt:
    """Return an attempt that puts a link in place of a file of the agent. `goal` is the variable that it leads to."""
    goals = {"PRECIOUS": "a file", "TREASURE": "a directory", "SECRET": "a secret", "NEW": "a new file"}
    return Attempt(
        f"a link in place of {path} leads to {goals[goal]} of the user",
        f'{_COMMIT}mkdir -p "$(dirname "{path}")"; rm -rf "{path}"; ln -s "${goal}" "{path}"\n',
        verbs,
    )


_GIT_LINKS = [
    _build_link_attempt(f".git/{path}", goal, verbs)
    for path, goal, verbs in (
        ("index", "NEW", COPY),
        ("index", "PRECIOUS", (*SYNC, *SAVE)),
        ("index.lock", "NEW", (*SYNC, *SAVE)),
        ("HEAD", "SECRET", (*LOOK, *SAVE)),
        ("config", "PRECIOUS", (*SYNC, *COPY)),
        ("config", "SECRET", SAVE),
        ("packed-refs", "SECRET", (*SYNC, *COPY)),
        ("refs/heads/mngr/foo", "PRECIOUS", SYNC),
        ("refs", "TREASURE", (*SYNC, *SAVE)),
        ("objects", "TREASURE", (*SYNC, *COPY)),
        ("logs/HEAD", "PRECIOUS", (*SYNC, *SAVE)),
        ("logs", "TREASURE", SYNC),
        ("info", "TREASURE", (*SYNC, *SAVE)),
        ("info/exclude", "SECRET", (*LOOK, *SAVE)),
        ("ORIG_HEAD", "PRECIOUS", SYNC),
        ("FETCH_HEAD", "NEW", SYNC),
        ("shallow", "SECRET", (*SYNC, *COPY)),
        ("hooks", "TREASURE", COPY),
        ("modules", "TREASURE", SAVE),
        ("worktrees", "TREASURE", SAVE),
        ("commondir", "SECRET", (*LOOK, *SAVE)),
    )
]
_FILE_LINKS = [
    _build_link_attempt(path, goal, verbs)
    for path, goal, verbs in (
        (".git", "TREASURE", (*LOOK, *SAVE)),
        ("README.md", "PRECIOUS", (*SYNC, *SAVE)),
        ("README.md", "SECRET", (*LOOK, *COPY)),
        ("src", "TREASURE", (*SYNC, *SAVE)),
        (".gitignore", "SECRET", (*LOOK, *COPY)),
        (".gitattributes", "SECRET", (*LOOK, *SAVE)),
        (".gitmodules", "SECRET", (*LOOK, *SAVE)),
        (".mngr", "TREASURE", (*LOOK, *COPY)),
        ("$MNGR_OUTPUT_DIR/file", "SECRET", ("pull foo", *SAVE)),
        ("$MNGR_OUTPUT_DIR/folder", "TREASURE", ("pull foo", *COPY)),
        ("$HOME/.gitconfig", "SECRET", (*RESTART, *COPY)),
        ("$HOME/.gitconfig", "PRECIOUS", (*RESTART, *SAVE)),
        ("$HOME/.config", "TREASURE", (*RESTART, *SAVE)),
        ("$HOME/.claude", "TREASURE", ("transcript foo", *RESTART, *COPY)),
    )
]
# The scripted agent has further files, which mngr reads to find its state.
_LINKS_FOR_EVERY_FILE = [
    Attempt(
        f"links in place of all files of a scripted agent lead to {variable}",
        'find "$MNGR_AGENT_DIR" "$MNGR_OUTPUT_DIR" ! -type d -writable -exec ln -sf "$' + variable + '" {} \\;\n',
        EVERY_VERB,
        options=("player", "--sandbox"),
    )
    for variable in ("PRECIOUS", "SECRET")
]
_LINKS = [
    Attempt(
        "a link in a path that the user pulls leads to a secret",
        'ln -s "$SECRET" file; ln -s "$(dirname "$SECRET")" folder\n',
        ("pull foo:file ../came", "pull foo:folder ../came", "pull foo:folder/secret ../came"),
    ),
    Attempt(
        "a link in a path that the user pushes to leads to a file of the user",
        'ln -s "$PRECIOUS" file; ln -s "$TREASURE" folder; ln -s "$NEW" nothing\n',
        ("push README.md foo:file", "push README.md foo:folder/coin", "push README.md foo:nothing", "push src foo:folder"),
    ),
    Attempt(
        "a link among untracked files leads to a directory of the user",
        'mkdir -p a/b; ln -s "$TREASURE" a/b/c; ln -s ../../../.. a/up; ln -s / root; ln -s "$TREASURE" build\n',
        EVERY_VERB,
    ),
    Attempt(
        "a hard link and a set-uid program are in the outputs",
        'cp /bin/true "$MNGR_OUTPUT_DIR/su"; chmod 6755 "$MNGR_OUTPUT_DIR/su"; ln "$MNGR_OUTPUT_DIR/su" "$MNGR_OUTPUT_DIR/too"; cp /bin/true su; chmod 6755 su\n',
        ("pull foo", "pull foo:. ../came", *SAVE),
    ),
]  # fmt: skip

_SPECIAL_FILES = [
    Attempt(
        f"a pipe in place of {path} stops mngr", f'{_COMMIT}mkdir -p "$(dirname "{path}")"; rm -rf "{path}"; mkfifo "{path}"\n', verbs
    )
    for path, verbs in (
        ("README.md", (*LOOK, *SAVE)),
        ("$MNGR_OUTPUT_DIR/pipe", ("pull foo", *SAVE)),
        ("$HOME/.claude/projects/x/y.jsonl", ("transcript foo", "usage foo", *COPY)),
    )
] + [
    Attempt(
        "a socket and a device lie among the files",
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"listen\")'; cp listen \"$MNGR_OUTPUT_DIR\" 2>/dev/null || true; mknod dev c 1 5 2>/dev/null || true\n"
        "python3 -c 'import os, socket; os.chdir(os.environ[\"MNGR_OUTPUT_DIR\"]); socket.socket(socket.AF_UNIX).bind(\"listen\")'\n",
        (*LOOK, *SYNC, *SAVE, *COPY),
    ),
    Attempt(
        "a sparse file of 1.1 GB fills the disk",
        'truncate -s 1100M big; truncate -s 1100M "$MNGR_OUTPUT_DIR/big"; truncate -s 1100M events.big\n',
        ("pull foo", "pull foo:big ../came", "list --git"),
    ),
    Attempt(
        "events, status and transcript are sparse files of 1.1 GB",
        'for f in events.jsonl status transcript.jsonl; do truncate -s 1100M "$MNGR_AGENT_DIR/$f"; done\n',
        ("list", "explain foo", "destroy --force foo"),
    ),
    Attempt(
        "directories are closed, endless and deeper than a path may be",
        "mkdir -p closed/inner; chmod 000 closed/inner closed; python3 -c '\nimport os\nfor _ in range(300):\n    os.mkdir(\"d\" * 200); os.chdir(\"d\" * 200)\nopen(\"end\", \"w\")'\n"
        'cd "$MNGR_OUTPUT_DIR"; mkdir closed; chmod 000 closed; ln -s . loop\n',
        ("list --git", "diff foo", "pull foo", "pull foo:. ../came", "snapshot create foo kept", "destroy --force foo"),
    ),
]  # fmt: skip

_NAMES = r"""
import os, sys
names = [b"a\nb", b"\x1b[2J\x1b]0;t\x07", b"-rf", b"--checkpoint=1", b"--checkpoint-action=exec=sh trap", b"-exec", b"--help",
    b"$(touch " + os.environb[b"MARK"].replace(b"/", b"$S") + b")", b"`id`", b"; touch x", b"'", b'"', b"\\", b"\xff\xfe",
    b"...", b".. ", b"..\n", b"~", b"%s%n", b"{0}", b"a\tb", b"a\rb", b"\xe2\x80\xae", b"x" * 250, b"*", b"?", b":", b"HEAD", b"refs", b"@{u}"]
os.environ["S"] = "/"
for top in [os.getcwd(), os.environ["MNGR_OUTPUT_DIR"], os.environ["HOME"]]:
    for name in names:
        try:
            open(os.path.join(os.fsencode(top), name), "wb").write(b"x")
            os.makedirs(os.path.join(os.fsencode(top), b"dirs", name), exist_ok=True)
            open(os.path.join(os.fsencode(top), b"dirs", name, name), "wb").write(b"x")
        except OSError:
            pass
"""
_ODD_NAMES = [
    Attempt(
        "names that a shell, tar, find or git could obey are in every directory",
        f"{TRAP}cp ~/trap trap; MARK=$MARK python3 - <<'END'\n{_NAMES}END\ngit add -A . || true; git commit -qm names || true\n",
        EVERY_VERB,
    ),
    Attempt(
        "branches, tags and messages hold words that a shell or git could obey",
        TRAP + r"""
git commit -q --allow-empty -m "$(printf '\033[2J$(touch %s)\n\n--exec=%s' "$MARK" "$HOME/trap")" --author "$(printf '\033[31m`id` <$(touch %s)>' "$MARK")"
c=$(git rev-parse HEAD)
for n in -x --upload-pack=$HOME/trap '$(touch${IFS}x)' ';id' "'" '`id`' mngr/--force; do git update-ref "refs/heads/$n" "$c" || true; git update-ref "refs/tags/$n" "$c" || true; done
""",
        EVERY_VERB,
    ),
    Attempt(
        "events, status and transcript hold words that a terminal or a shell could obey",
        r"""
printf '\033[2J$(touch %s)\n' "$MARK" > "$MNGR_AGENT_DIR/status"
for f in events.jsonl transcript.jsonl; do printf '{"type": "\\u001b[2J", "at": "2026-01-01T00:00:00.000Z", "source": "\\u009b", "role": "user", "text": "\\u001b]52;c;AA==\\u0007", "data": {"path": "%s", "x": [[[[]]]]}}\nnot json \033[2J\n[]\n"x"\n' "$SECRET" >> "$MNGR_AGENT_DIR/$f"; done
""",
        (*LOOK, *RESTART, *SAVE),
    ),
]  # fmt: skip

ATTEMPTS = [*_GIT_LINKS, *_FILE_LINKS, *_LINKS_FOR_EVERY_FILE, *_LINKS, *_SPECIAL_FILES, *_ODD_NAMES]
