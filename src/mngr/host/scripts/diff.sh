# diff.sh own|shared WORK BASE all|committed OPTION...: prints an agent's work since BASE as a git diff.

#include agent_repository.sh

enter "$1" "$2"
base=$3 what=$4
case $base in '' | *[!0-9a-f]*)
    echo "the base commit of the agent is not in its repository" >&2
    exit 1
    ;;
esac
shift 4
[ "$what" = all ] || exec git diff --no-ext-diff --no-textconv ${still:-} "$@" "$base" HEAD
# New files are added to a copy of the index, so that the agent's index stays unchanged. The copy keeps the time of the
# index, because git uses it to decide which files to read again.
index=$(mktemp) || exit 1
trap 'rm -f "$index"' EXIT
cp -p "$(git rev-parse --git-path index)" "$index" 2>/dev/null
GIT_INDEX_FILE=$index
export GIT_INDEX_FILE
git ls-files --others --exclude-standard -z |
    git --literal-pathspecs add --intent-to-add --pathspec-from-file=- --pathspec-file-nul 2>/dev/null
git diff --no-ext-diff --no-textconv ${still:-} "$@" "$base"
