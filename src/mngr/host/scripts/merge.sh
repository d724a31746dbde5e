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
stash_changes() {
    # git would run in nested repositories to find changes, with their settings.
    [ -z "${still:-}" ] || inner=$(git ls-files --stage | sed -n 's/^160000 [^	]*	//p' | head -n 1)
    if [ -n "${inner:-}" ]; then
        printf '%s\n' "$inner"
        exit 2
    fi
    before=$(top)
    git stash push --quiet --include-untracked >&2 || exit 1
    stash_commit=$(top)
    [ "$stash_commit" != "$before" ] || stash_commit=
}

# Applies the stash again. If it conflicts, remove all traces of it from the work dir.
restore_changes() {
    [ -n "$stash_commit" ] || return 0
    if ! git stash apply --quiet --index "$stash_commit" >/dev/null 2>&1; then
        git reset --quiet --hard
        git ls-tree -r -z --name-only "$stash_commit^3" 2>/dev/null | xargs -0 rm -f --
        return 1
    fi
    number=$(git stash list --format=%H | grep -n -x -F "$stash_commit" | cut -d: -f1)
    [ -z "$number" ] || git stash drop --quiet "stash@{$((number - 1))}"
}

stash_commit='' old=$(git rev-parse HEAD)
[ -z "$found" ] || stash_changes
if git merge-base --is-ancestor "$commit" HEAD; then
    how=up_to_date
else
    how=merge
    if git merge-base --is-ancestor HEAD "$commit"; then how=fast_forward; fi
    if ! git merge --quiet --no-edit -m "$message" "$commit" >&2; then
        where=$(git diff --name-only --diff-filter=U)
        git merge --abort >/dev/null 2>&1
        restore_changes
        [ -n "$where" ] || exit 1
        printf '%s\n' "$where" | head -n 3
        exit 4
    fi
fi
if ! restore_changes; then
    git reset --quiet --hard "$old"
    restore_changes
    exit 3
fi
echo "$how $(git rev-parse HEAD)"
