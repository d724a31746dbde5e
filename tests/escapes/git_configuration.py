"""Attempts with git's own settings: mngr's git must neither run the agent's programs nor work in another repository."""

from __future__ import annotations

from tests.escapes.attempt import COPY, LOOK, SAVE, SYNC, TRAP, Attempt

_DIRTY = "echo more >> README.md; echo new > new.txt\n"
_COMMIT = "echo more > more.txt; git add more.txt; git commit -qm more\n"
# Deletes a tree object, so that git wants to fetch it from the promisor remote `evil`.
_LOSE_TREE = """
git config core.repositoryFormatVersion 1; git config extensions.partialClone evil
mkdir -p deep; echo x > deep/file; git add deep; git commit -qm deep
tree=$(git rev-parse HEAD:deep); rm -f ".git/objects/$(echo "$tree" | cut -c1-2)/$(echo "$tree" | cut -c3-)"
"""
_READ_TREE = "git rev-list --objects HEAD"


def _build_config_attempt(name: str, settings: str, proof: str, verbs: tuple[str, ...], more: str = "") -> Attempt:
    """Return an attempt that writes settings into the agent's repository and its home. `@` is the trap."""
    lines = "".join(
        f"git config {place} {line.strip().replace('@', '$HOME/trap')}\n"
        for line in settings.strip().splitlines()
        for place in ("--local", "--global")
    )
    return Attempt(name, TRAP + more + lines + _DIRTY, verbs, proof)


_PROMISORS = [
    _build_config_attempt(
        f"a promisor remote {name} runs a program when mngr {action}",
        f"remote.evil.promisor true\nremote.evil.fetch '+refs/*:refs/evil/*'\n{settings}",
        _READ_TREE,
        verbs,
        _LOSE_TREE,
    )
    for name, settings in (
        ("with an ext:: address", 'remote.evil.url "ext::@ %S"\nprotocol.ext.allow always'),
        ("with its own upload program", 'remote.evil.url /\nremote.evil.uploadpack "@"'),
        ("over ssh with its own ssh", 'remote.evil.url ssh://evil/x\ncore.sshCommand "@"'),
        ("with a rewritten address", 'remote.evil.url evil:x\nurl."ext::@ ".insteadOf evil:\nprotocol.allow always'),
    )
    for action, verbs in (("looks", LOOK), ("saves", SAVE), ("copies", COPY), ("pulls", SYNC))
]

_SETTINGS = [
    _build_config_attempt(
        "a file monitor runs when mngr looks", 'core.fsmonitor "@"', "git status", ("list --git", "diff foo")
    ),
    _build_config_attempt(
        "a file monitor runs when mngr saves",
        'core.fsmonitor "@"',
        "git status",
        ("snapshot create foo kept", "destroy --force foo"),
    ),
    _build_config_attempt(
        "a filter runs on changed files when mngr saves",
        'filter.evil.clean "@"\nfilter.evil.smudge "@"\nfilter.evil.required true',
        "git add .",
        SAVE,
        "mkdir -p .git/info; echo '* filter=evil' > .git/info/attributes\n",
    ),
    _build_config_attempt(
        "a filter process runs when mngr copies",
        'filter.evil.process "@"\nfilter.evil.required true',
        "git add .",
        COPY,
        "echo '* filter=evil' > .gitattributes\n",
    ),
    _build_config_attempt(
        "a text converter runs when mngr shows a difference",
        'diff.evil.textconv "@"',
        "git diff",
        ("diff foo", "diff foo --stat"),
        "echo '* diff=evil' > .gitattributes\n",
    ),
    _build_config_attempt(
        "an external diff program runs", 'diff.external "@"', "git diff", ("diff foo", "diff foo --name-only")
    ),
    _build_config_attempt(
        "a merge driver runs when mngr pushes",
        'merge.evil.driver "@"\nmerge.default evil',
        "git checkout -q README.md; git checkout -qb side HEAD~1; echo s > README.md; git commit -qam s; git merge mngr/foo",
        ("git commit -q --allow-empty -m mine", "push foo", "push foo --stash"),
        "mkdir -p .git/info; echo '* merge=evil' > .git/info/attributes; echo mine >> README.md; git commit -qam mine\n",
    ),
    _build_config_attempt(
        "hooks run from another directory",
        "core.hooksPath ~/hooks",
        "git commit -qam x",
        (*SYNC, *SAVE),
        "mkdir ~/hooks; for n in post-checkout post-index-change reference-transaction pre-auto-gc post-merge push-to-checkout update; do ln -s ~/trap ~/hooks/$n; done\n",
    ),
    _build_config_attempt(
        "hooks run from the usual directory",
        "core.bare false",
        "git commit -qam x",
        (*SYNC, *COPY),
        "mkdir -p .git/hooks; for n in post-checkout post-index-change reference-transaction pre-commit post-merge pre-receive; do ln -sf ~/trap .git/hooks/$n; done\n",
    ),
    _build_config_attempt(
        "a program to check signatures runs",
        'gpg.program "@"\nlog.showSignature true\ncommit.gpgSign true\nmerge.verifySignatures true',
        "git commit -qam x",
        (*LOOK, *SAVE),
    ),
    _build_config_attempt(
        "a pager runs",
        'core.pager "@"\npager.diff "@"\npager.log "@"',
        "script -qec 'git --paginate diff' /dev/null",
        ("diff foo", "diff foo --committed"),
    ),
    _build_config_attempt(
        "an included file holds the trap",
        "include.path evil",
        "git status",
        (*LOOK, *SAVE),
        'git config --file .git/evil core.fsmonitor "$HOME/trap"\n',
    ),
    _build_config_attempt(
        "settings of one worktree hold the trap",
        "extensions.worktreeConfig true",
        "git status",
        (*LOOK, *SAVE),
        'git config --file .git/config.worktree core.fsmonitor "$HOME/trap"\n',
    ),
    _build_config_attempt(
        "an alias replaces a command of git",
        'alias.status "!$HOME/trap"\nalias.st "!$HOME/trap"',
        "git st",
        ("list --git", "snapshot create foo kept"),
    ),
    _build_config_attempt(
        "a program that lists refs of alternates runs",
        'core.alternateRefsCommand "@"',
        "git init -q --bare ~/other.git; git push -q --receive-pack 'git -c core.alternateRefsCommand=$HOME/trap receive-pack' . HEAD:refs/x; git -c core.alternateRefsCommand=$HOME/trap fetch -q ~/other.git",
        (*SYNC, *COPY),
        "git init -q --bare ~/alt.git; echo ~/alt.git/objects > .git/objects/info/alternates\n",
    ),
]

_REPOSITORIES = [
    Attempt(
        "the work tree of the repository is a directory of the user",
        'git config core.worktree "$TREASURE"\n',
        (*LOOK, *SYNC, *SAVE),
        "git reset -q --hard; git clean -fdq",
    ),
    Attempt(
        "the git directory is the user's own repository",
        'mv .git ../old 2>/dev/null || mv .git "$HOME/old"; echo "gitdir: $REPO/.git" > .git\n',
        (*LOOK, *SYNC, *SAVE),
    ),
    Attempt(
        "the common directory is the user's own repository",
        'echo "$REPO/.git" > .git/commondir\n',
        (*LOOK, *SYNC, *SAVE),
    ),
    Attempt(
        "a submodule has a file monitor",
        TRAP
        + "git init -q sub; (cd sub; git commit -q --allow-empty -m x; git config core.fsmonitor ~/trap; echo x > x)\n"
        + "printf '[submodule \"sub\"]\\n\\tpath = sub\\n\\turl = ./sub\\n' > .gitmodules; git -c advice.addEmbeddedRepo=false add sub .gitmodules; git commit -qm sub\n",
        (*LOOK, *SAVE, *COPY),
        "git -C sub status",
    ),
    Attempt(
        "a submodule is updated by a program",
        TRAP + "git init -q sub; git -C sub commit -q --allow-empty -m x\n"
        "printf '[submodule \"sub\"]\\n\\tpath = sub\\n\\turl = ./sub\\n' > .gitmodules; git -c advice.addEmbeddedRepo=false add sub .gitmodules; git commit -qm sub\n"
        'git config submodule.sub.url ./sub; git config submodule.sub.update "!$HOME/trap"; git config submodule.recurse true\n',
        (*SYNC, *SAVE, *COPY),
        "git -C sub commit -q --allow-empty -m y; git submodule update",
    ),
    Attempt(
        "a replaced object shows another history",
        _COMMIT + 'old=$(git rev-parse HEAD~1); git replace --graft HEAD; git update-ref refs/replace/$old "$(git rev-parse HEAD)"\n',
        (*LOOK, *SYNC, *SAVE),
    ),
    Attempt(
        "alternates lead to objects of the user",
        'mkdir -p .git/objects/info; printf "%s\\n" "$REPO/.git/objects" "$TREASURE" /etc > .git/objects/info/alternates\n',
        (*LOOK, *SYNC, *SAVE),
    ),
    Attempt(
        "a bare repository lies in the work tree",
        TRAP + "git init -q --bare inner; git -C inner config core.fsmonitor ~/trap; git -C inner config core.bare false; git -C inner config core.worktree ..\n",
        (*LOOK, *SAVE),
        "cd inner; git status",
    ),
    Attempt(
        "programs with common names lie in the work dir and the home",
        TRAP + "mkdir -p ~/bin ~/.local/bin; for n in git tar find sh env cat python3 tmux bwrap git-remote-ext; do for d in . ~/bin ~/.local/bin ~; do ln -s ~/trap $d/$n; done; done\n"
        'for f in .profile .bashrc .bash_profile .zshenv .tmux.conf .env; do echo "$HOME/trap" > ~/$f; echo "$HOME/trap" > $f; done\n',
        (*LOOK, *SYNC, *SAVE),
        "PATH=.:$PATH; git status",
    ),
    Attempt(
        "Python modules with common names lie in the work dir",
        "for n in json os re subprocess sitecustomize usercustomize tarfile mngr; do echo \"open('$MARK', 'w')\" > $n.py; done; printf 'home = .\\n' > pyvenv.cfg\n",
        (*LOOK, *SAVE),
        "python3 -c 'import tarfile'",
    ),
]  # fmt: skip

# Names a file of the index anew, as no git command would. Both names have the same length.
_RENAME_IN_INDEX = """python3 - <<'END'
import hashlib
content = open(".git/index", "rb").read()[:-20].replace(b"@OLD", b"@NEW")
open(".git/index", "wb").write(content + hashlib.sha1(content).digest())
END
"""
_INDEXES = [
    Attempt(
        "a path of the index leads through a committed link to a directory of the user",
        'ln -s "$TREASURE" link; git add link; git commit -qm link; git rm -q --cached link\n'
        "git update-index --add --cacheinfo 100644,$(git rev-parse HEAD:README.md),link/coin\n",
        ("create bar --from foo --dirty include -- sleep 1000",),
    ),
    Attempt(
        "a path of the index leads into the repository",
        TRAP + "mkdir xgit; cp .git/config xgit/config; git add xgit; git config core.fsmonitor ~/trap\n"
        + _RENAME_IN_INDEX.replace("@OLD", "xgit/config").replace("@NEW", ".git/config"),
        ("create bar --from foo --dirty include -- sleep 1000", "list --git", "git -C {STATE}/work/bar status"),
        "git status",
    ),
    Attempt(
        "the index lists a whole repository as files of the project",
        TRAP + "mkdir -p xgit/objects xgit/refs; cp .git/HEAD .git/config xgit; touch xgit/objects/k xgit/refs/k .git/objects/k .git/refs/k\n"
        "git add xgit; git config core.fsmonitor ~/trap; rm -rf xgit\n" + _RENAME_IN_INDEX.replace("@OLD", "xgit/").replace("@NEW", ".git/"),
        ("create bar --from foo --transfer copy --dirty include -- sleep 1000", "git -C {STATE}/work/bar status", "create baz --from foo --dirty include -- sleep 1000"),
        "git status",
    ),
    Attempt(
        "a path of the index leads out of the work dir",
        "mkdir -p aa/bb; echo x > aa/bb/new.txt; git add aa; echo x > ../../new.txt || true\n"
        + _RENAME_IN_INDEX.replace("@OLD", "aa/bb/new.txt").replace("@NEW", "../../new.txt"),
        ("create bar --from foo --dirty include -- sleep 1000", "create bar --from foo --transfer copy -- sleep 1000"),
    ),
]  # fmt: skip

ATTEMPTS = [*_PROMISORS, *_SETTINGS, *_REPOSITORIES, *_INDEXES]
