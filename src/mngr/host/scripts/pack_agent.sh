# pack_agent.sh HOME ID WORK BRANCH [WORD…]: writes an agent's directory and its work dir as a tar stream. WORK may be
# empty. BRANCH is given if the repository's objects are outside the work dir. Then agents/ID/gather contains the
# objects that HEAD, BRANCH, the index and the logs need. The WORDs are arguments of find that exclude files; they
# have no effect if tar cannot read a list of names.

#include guard_git.sh

cd "$1" || exit 4
id=$2 work=$3 branch=$4
shift 4
[ -d "agents/$id" ] || exit 4
extra=$PWD/agents/$id/gather
pack() {
    umask 077
    mkdir "$extra" && cd "work/$work" && guard . && dir=$(git rev-parse --absolute-git-dir) && common=$(git rev-parse --git-common-dir) || return
    printf %s "$dir" >"$extra/dir"
    [ -d .git ] || cp -R "$dir" "$extra/git" || return
    git symbolic-ref -q HEAD >"$extra/names"
    printf 'refs/heads/%s\n' "$branch" >>"$extra/names"
    sort -u "$extra/names" | while read -r ref; do
        oid=$(git rev-parse --verify -q "$ref") && echo "$oid $ref"
    done >"$extra/refs"
    [ ! -d .git ] || git for-each-ref --format='%(objectname) %(refname)' >"$extra/refs"
    # Collect every word that could be an object id; git then selects the objects that exist.
    {
        cat "$extra/refs"
        git rev-parse --verify -q HEAD
        cat "$common/logs/refs/heads/$branch" 2>/dev/null
        find "$dir" \( -name objects -o -name index -o -name 'sharedindex.*' \) -prune -o -type f -exec cat {} + 2>/dev/null
    } | tr -cs 0-9a-f '\n' | awk 'length == 40 || length == 64' | sort -u |
        git cat-file --batch-check='%(objectname)' | grep -v ' ' |
        git --no-replace-objects pack-objects --revs --indexed-objects --stdout -q >"$extra/pack"
}
rm -rf "$extra"
if [ -n "$branch" ]; then
    trap 'rm -rf "$extra"' EXIT
    (pack) || exit 3
fi
set -- -type s -prune -o "$@" -print0
if tar --no-recursion --null -T /dev/null -cf /dev/null 2>/dev/null; then
    { find "agents/$id" ${work:+"work/$work"} "$@" || echo "find: failed" >&2; } | tar --no-recursion --null -T - -cf -
else
    tar -cf - "agents/$id" ${work:+"work/$work"}
fi
