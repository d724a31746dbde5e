# Merge a commit into an agent's branch, where it works: own|shared WORK BRANCH COMMIT stash|keep MESSAGE
# Answers: HOW COMMIT. Refuses with 9 no work dir, 8 no repository of its own, 7 another branch, 6 commit not there,
# 5 uncommitted changes, 4 a conflict, 3 a conflict with uncommitted changes, 2 a repository inside that cannot be put aside.
# 5, 4 and 2 say where.

#include repo.sh

enter "$1" "$2"
branch=$3 commit=$4 stash=$5 message=$6
trap 'git update-ref -d refs/mngr/pushed' EXIT # under which it may have come
[ "$(git symbolic-ref --quiet HEAD)" = "refs/heads/$branch" ] || exit 7
git cat-file -e "$commit^{commit}" 2>/dev/null || exit 6
changes || exit 1
if [ -n "$found" ] && [ "$stash" != stash ]; then
    printf '%s\n' "$found" | sed -n '1s/^...//p'
    exit 5
fi

top() { git rev-parse --verify --quiet refs/stash; }

# Worktrees share one list of stashes, so its top says nothing: the commit is what counts.
put_aside() {
    # git would ask a repository inside for its changes, which then does as it is set to.
    [ -z "${still:-}" ] || inner=$(git ls-files --stage | sed -n 's/^160000 [^	]*	//p' | head -n 1)
    if [ -n "${inner:-}" ]; then
        printf '%s\n' "$inner"
        exit 2
    fi
    before=$(top)
    git stash push --quiet --include-untracked >&2 || exit 1
    kept=$(top)
    [ "$kept" != "$before" ] || kept=
}

# Where the changes do not fit, nothing of them is left in the way.
take_back() {
    [ -n "$kept" ] || return 0
    if ! git stash apply --quiet --index "$kept" >/dev/null 2>&1; then
        git reset --quiet --hard
        git ls-tree -r -z --name-only "$kept^3" 2>/dev/null | xargs -0 rm -f --
        return 1
    fi
    number=$(git stash list --format=%H | grep -n -x -F "$kept" | cut -d: -f1)
    [ -z "$number" ] || git stash drop --quiet "stash@{$((number - 1))}"
}

kept='' old=$(git rev-parse HEAD)
[ -z "$found" ] || put_aside
if git merge-base --is-ancestor "$commit" HEAD; then
    how=up_to_date
else
    how=merge
    if git merge-base --is-ancestor HEAD "$commit"; then how=fast_forward; fi
    if ! git merge --quiet --no-edit -m "$message" "$commit" >&2; then
        where=$(git diff --name-only --diff-filter=U)
        git merge --abort >/dev/null 2>&1
        take_back
        [ -n "$where" ] || exit 1
        printf '%s\n' "$where" | head -n 3
        exit 4
    fi
fi
if ! take_back; then
    git reset --quiet --hard "$old"
    take_back
    exit 3
fi
echo "$how $(git rev-parse HEAD)"
