# mirror.sh SOURCE WORK FORMAT BASE BRANCH NEW FILTERS [KEY VALUE]...: creates an independent repository at WORK. It has all
# branches and tags of SOURCE, but none of its hooks, settings, alternates or hard links. BRANCH is checked out, and
# created at BASE if NEW is 1. If FILTERS is 0, the settings of the user and of the system do not count, so git runs no
# filter on the files. Otherwise git-lfs finds the contents of files in SOURCE.
# Exit code 9: BRANCH exists already.
from=$1 work=$2 form=$3 base=$4 branch=$5 new=$6 filters=$7
shift 7
set -e
case $from in
*/cache/sources/*.git)
    touch "$from" # gc deletes repositories that are unused for long
    # Only mngr writes to this cache, so its objects can be copied as files. A git fetch would read and hash all of
    # them. The branches are read first, so that the copy contains all objects that they need.
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
    # Version 2 of git's protocol also sends commits that are on no branch or tag.
    git -c protocol.version=2 fetch --quiet --no-tags --no-write-fetch-head --no-auto-maintenance --update-shallow --update-head-ok \
        --no-recurse-submodules -- "$from" '+refs/heads/*:refs/heads/*' '+refs/tags/*:refs/tags/*' "+$base:$to"
fi
[ "$new" = 1 ] || git update-ref -d refs/mngr/base
while [ $# -ge 2 ]; do
    git config "$1" "$2"
    shift 2
done
if [ "$filters" = 0 ]; then
    export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_ATTR_NOSYSTEM=1
elif [ -d "$from/lfs" ]; then
    # A mirror has no remote from which git-lfs could fetch.
    export GIT_LFS_SKIP_DOWNLOAD_ERRORS=1 GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=lfs.storage GIT_CONFIG_VALUE_0="$from/lfs"
fi
git reset --quiet --hard --no-recurse-submodules
