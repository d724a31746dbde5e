# What is uncommitted and what was committed, of several agents: own|shared WORK BASE BRANCH, for each.
# BRANCH is empty where commits are not counted, else the branch that is the agent's alone, or -.

#include repo.sh

look() {
    enter "$1" "$2"
    found=$(changes) || return
    if [ -n "$found" ]; then echo dirty; else echo clean; fi
    if [ "$1" = own ]; then
        git rev-list --max-count=100000 HEAD "^$3" -- | sed 's/^/made /'
    elif [ -n "$4" ]; then
        git rev-list --count HEAD "^$3" --not --exclude="$4" --branches --tags --remotes -- | sed 's/^/count /'
    fi
}

place=$(mktemp -d) || exit 1
trap 'rm -rf "$place"' EXIT
number=0
while [ $# -gt 0 ]; do
    (look "$1" "$2" "$3" "$4") >"$place/$number" 2>/dev/null &
    number=$((number + 1))
    [ $((number % 4)) -ne 0 ] || wait
    shift 4
done
wait
at=0
while [ $at -lt $number ]; do
    echo "agent $at"
    cat "$place/$at"
    at=$((at + 1))
done
