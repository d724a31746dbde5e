# land.sh HOME ID WORK MODE <TAR: an agent's own files, and in `landing` its work dir, into a directory that is reserved for it. All of
# it or nothing: `complete` is the last thing in the stream. WORK may be empty. Exit 8: somebody else has that work dir.
umask 077
cd "$1/agents/$2" || exit 4
home=$1 work=$3 mode=$4
rm -rf landing complete
tar -xpof - || exit 6
[ -f complete ] || exit 6
rm -f complete
[ -n "$work" ] || exit 0
if [ -e "$home/work/$work" ] || [ -L "$home/work/$work" ]; then exit 8; fi
mv landing "$home/work/$work" && chmod "$mode" "$home/work/$work"
