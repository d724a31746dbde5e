# Functions for scripts that read or change an agent's work dir.

#include guard_git.sh

# `enter own|shared WORK`: changes to WORK. If the agent owns the repository, git uses WORK whatever its settings say.
enter() {
    cd -- "$2" 2>/dev/null || exit 9
    if [ "$1" != own ]; then
        quiet
        return
    fi
    if [ ! -d .git ] || [ -L .git ] || [ -e .git/commondir ]; then
        echo "the work dir is no longer a git repository of its own" >&2
        exit 8
    fi
    GIT_DIR=$2/.git GIT_WORK_TREE=$2 still=--ignore-submodules=dirty
    export GIT_DIR GIT_WORK_TREE
    guard "$2"
}

# `changes`: sets `found` to a row for each uncommitted change that counts. Fails when git fails.
changes() {
    found=$(git --no-optional-locks status --porcelain=v1 --untracked-files=all --no-renames ${still:-}) || return
    case $found in
    *.mngr/* | *.pyc*)
        found=$(printf '%s\n' "$found" | sed -e '/^.. \.mngr\/settings\.toml$/b' -e '/^.. "\{0,1\}\.mngr\//d' \
            -e '/^?? .*\.pyc"\{0,1\}$/d') # compiled files that tests create and git does not ignore
        ;;
    esac
}
