# git_state.sh [own|shared WORK BASE BRANCH]...: prints the uncommitted and committed work of several agents.
# BRANCH is the agent's own branch, - if it has none, or empty to omit the commits of a shared repository.
# Prints for each: agent N, then dirty, clean or unknown, then its commits (own) or their number (shared).

#include agent_repository.sh

look() {
    enter "$1" "$2"
    if ! changes; then
        echo unknown
    elif [ -n "$found" ]; then
        echo dirty
    else
        echo clean
    fi
    if [ "$1" = own ]; then
        exec git rev-list --max-count=100000 HEAD "^$3" --
    elif [ -n "$4" ]; then
        exec git rev-list --count HEAD "^$3" --not --exclude="$4" --branches --tags --remotes --
    fi
}

place=$(mktemp -d) || exit 1
trap 'rm -rf "$place"' EXIT
number=0
while [ $# -gt 0 ]; do
    {
        echo "agent $number"
        look "$1" "$2" "$3" "$4"
    } >"$place/$number" 2>/dev/null &
    number=$((number + 1))
    [ $((number % 4)) -ne 0 ] || wait
    shift 4
done
wait
[ $number -eq 0 ] || cat "$place"/*
