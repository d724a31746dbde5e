# mirror.sh SOURCE WORK FORMAT BASE BRANCH NEW [KEY VALUE]...: an independent repository at WORK: all branches and tags of SOURCE,
# none of its hooks, settings, alternates or hard links; BRANCH checked out, made at BASE if NEW is 1. Exit 9: it is there already.
from=$1 work=$2 form=$3 base=$4 branch=$5 new=$6
shift 6
set -e
case $from in
*/cache/sources/*.git)
    touch "$from" # gc goes by the time it was last used
    # Nobody but us writes there: it is copied as files, for to send them through git would read, hash and write all once more.
    # First the branches: what they need is there then, whatever else comes in meanwhile.
    rows=$(git --git-dir="$from" for-each-ref --format='create %(refname) %(objectname)' refs/heads refs/tags; echo x)
    ;;
*) rows= ;;
esac
to=refs/heads/$branch
if [ "$new" = 1 ]; then
    if git --git-dir="$from" show-ref --verify --quiet "$to"; then exit 9; fi
else
    to=refs/mngr/base
fi
git init --quiet --template= --object-format="$form" --initial-branch="$branch" -- "$work"
cd "$work"
if [ -n "$rows" ] && ! [ -e "$from/objects/info/alternates" ] && cp -R "$from/objects/." .git/objects; then
    for half in .git/objects/tmp_* .git/objects/*/tmp_*; do
        if [ -e "$half" ]; then rm -rf "$half"; fi
    done
    [ ! -e "$from/shallow" ] || cp "$from/shallow" .git/shallow
    printf '%s\n' "${rows%x}create $to $base" | git update-ref --stdin
else
    # Version 2 of git's protocol gives also what no branch or tag has.
    git -c protocol.version=2 fetch --quiet --no-tags --no-write-fetch-head --no-auto-maintenance --update-shallow --update-head-ok \
        --no-recurse-submodules -- "$from" '+refs/heads/*:refs/heads/*' '+refs/tags/*:refs/tags/*' "+$base:$to"
fi
[ "$new" = 1 ] || git update-ref -d refs/mngr/base
while [ $# -ge 2 ]; do
    git config "$1" "$2"
    shift 2
done
git reset --quiet --hard --no-recurse-submodules
