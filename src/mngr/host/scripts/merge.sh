# merge.sh own|shared WORK BRANCH COMMIT stash|keep MESSAGE: merges a commit into an agent's branch, in its work dir.
# Prints: HOW COMMIT. Exit codes: 9 no work dir, 8 not its own repository, 7 another branch, 6 the commit is missing,
# 5 uncommitted changes, 4 a conflict, 3 a conflict with uncommitted changes, 2 a nested repository that cannot be
# stashed. 5, 4 and 2 also print the files.

#include agent_repository.sh

enter "$1" "$2"
branch=$3 commit=$4 stash=$5 message=$6
trap 'git update-ref -d refs/mngr/pushed' EXIT # the ref under which the commit may have been pushed
[ "$(git symbolic-ref --quiet HEAD)" = "refs/heads/$branch" ] || exit 7
git cat-file -e "$commit^{commit}" 2>/dev/null || exit 6
changes || exit 1
if [ -n "$found" ] && [ "$stash" != stash ]; then
    printf '%s\n' "$found" | sed -n '1s/^...//p'
    exit 5
fi

top() { git rev-parse --verify --quiet refs/stash; }

# Worktrees share one list of stashes, so its top may belong to another worktree. The commit identifies the stash.
put_aside() {
    # git would run in nested repositories to find changes, with their settings.
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

# Applies the stash again. If it conflicts, remove all traces of it from the work dir.
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
