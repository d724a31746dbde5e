# An agent's work dir, for the programs that look at it and change it.

#include guard.sh

# `enter own|shared WORK`: go there. In a repository of the agent's own, git works on that directory whatever its settings say.
enter() {
    cd -- "$2" 2>/dev/null || exit 9
    if [ "$1" != own ]; then
        quiet
        return
    fi
    if [ ! -d .git ] || [ -L .git ] || [ -e .git/commondir ]; then
        echo "it is no longer a repository of its own" >&2
        exit 8
    fi
    GIT_DIR=$2/.git GIT_WORK_TREE=$2 still=--ignore-submodules=dirty
    export GIT_DIR GIT_WORK_TREE
    guard "$2"
}

# `changes`: $found is a row for everything uncommitted that counts; fails when git cannot tell.
changes() {
    found=$(git --no-optional-locks status --porcelain=v1 --untracked-files=all --no-renames ${still:-}) || return
    case $found in
    *.mngr/* | *.pyc*)
        found=$(printf '%s\n' "$found" | sed -e '/^.. \.mngr\/settings\.toml$/b' -e '/^.. "\{0,1\}\.mngr\//d' \
            -e '/^?? .*\.pyc"\{0,1\}$/d') # what running tests leaves where nobody told git to ignore it
        ;;
    esac
}
