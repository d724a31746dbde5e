# unpack_agent.sh HOME ID WORK MODE NEAR <TAR: unpacks an agent's own files, and its work dir (in `landing`), into the
# directory that is reserved for the agent. It fails unless `complete`, the last file of the stream, has arrived. WORK
# may be empty. NEAR may be empty or a repository with the objects that are not in the stream. Exit codes: 8 the work
# dir exists, 9 NEAR lacks objects.

#include guard_git.sh

umask 077
cd "$1/agents/$2" || exit 4
home=$1 work=$3 mode=$4 near=$5
rm -rf landing complete
tar -xpof - || exit 6
[ -f complete ] || exit 6
rm -f complete
[ -n "$work" ] || exit 0
if [ -n "$near" ]; then
    touch "$near" # gc deletes repositories that are unused for long
    mkdir -p landing/.git/objects/info && echo "$near/objects" >landing/.git/objects/info/alternates || exit 6
    (guard landing && git -C landing repack -a -d -k -q) || exit 9
    rm -f landing/.git/objects/info/alternates
fi
if [ -e "$home/work/$work" ] || [ -L "$home/work/$work" ]; then exit 8; fi
mv landing "$home/work/$work" && chmod "$mode" "$home/work/$work"
