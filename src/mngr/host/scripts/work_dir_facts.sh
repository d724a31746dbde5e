# work_dir_facts.sh WORK: prints facts about a work dir before its files are fetched, each ended by a NUL: `umask N`, `git
# KIND`, `pack SIZE NAME` of each pack, `ignored BYTES`, and the rows of git status. KIND is dir, file (a worktree),
# borrows (uses objects of another repository) or none.
#include guard_git.sh
cd "$1" 2>/dev/null || exit 4
kind=none
if [ -L .git ]; then
    :
elif [ -f .git ]; then
    kind=file
elif [ -d .git ]; then
    kind=dir
    if [ -s .git/objects/info/alternates ] || [ -e .git/commondir ]; then kind=borrows; fi
fi
printf 'umask %s\0git %s\0' "$(umask)" "$kind"
guard .
[ $kind != none ] && [ "$(git rev-parse --show-prefix 2>/dev/null)" = '' ] || exit 0
if [ $kind = dir ]; then
    ls -ln .git/objects/pack 2>/dev/null | awk '$NF ~ /^pack-[0-9a-f]+\.pack$/ { print $5, $NF }' | while read -r pack; do
        printf 'pack %s\0' "$pack"
    done
fi
bytes=$(git ls-files --others --ignored --exclude-standard --directory -z 2>/dev/null | xargs -0 sh -c '[ $# -eq 0 ] || exec du -sk -- "$@"' du 2>/dev/null |
    awk '/^[0-9]+\t/ { n += $1 } END { printf "%d", n * 1024 }')
printf 'ignored %s\0' "${bytes:-0}"
git --no-optional-locks status --porcelain=v2 -z --untracked-files=all --ignored=matching --no-renames --ignore-submodules=dirty 2>/dev/null
