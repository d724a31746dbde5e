# land.sh HOME ID WORK MODE NEAR <TAR: an agent's own files, and in `landing` its work dir, into a directory that is reserved for it.
# All of it or nothing: `complete` is the last thing in the stream. WORK may be empty. NEAR, if it is not, is a repository that has
# the objects which did not come. Exit 8: somebody else has that work dir; 9: NEAR does not have them all.
umask 077
cd "$1/agents/$2" || exit 4
home=$1 work=$3 mode=$4 near=$5
rm -rf landing complete
tar -xpof - || exit 6
[ -f complete ] || exit 6
rm -f complete
[ -n "$work" ] || exit 0
if [ -n "$near" ]; then
    touch "$near" # gc goes by the time it was last used
    mkdir -p landing/.git/objects/info && echo "$near/objects" >landing/.git/objects/info/alternates || exit 6
    git -C landing -c core.hooksPath=/dev/null -c core.fsmonitor=false repack -a -d -k -q || exit 9
    rm -f landing/.git/objects/info/alternates
fi
if [ -e "$home/work/$work" ] || [ -L "$home/work/$work" ]; then exit 8; fi
mv landing "$home/work/$work" && chmod "$mode" "$home/work/$work"
