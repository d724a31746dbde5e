# enter.sh [-p] [-f FILE] DIR CMD…: become CMD, in the agent's work dir with the agent's environment.
# -p writes the pid down first: from then on the agent's process really runs.
# -f says in FILE why CMD could not be started; then the exit code is 125.
_mngr_note= _mngr_file=
while :; do
    case $1 in
    -p) _mngr_note=1 ;;
    -f)
        _mngr_file=$2
        shift
        ;;
    *) break ;;
    esac
    shift
done
_mngr_dir=$1
shift
_mngr_fail() {
    if [ -n "$_mngr_file" ]; then
        echo "$2" >"$_mngr_file"
        exit 125
    fi
    echo "mngr: $2" >&2
    exit "$1"
}
[ -r "$_mngr_dir/env" ] || _mngr_fail 125 "its environment file is gone"
. "$_mngr_dir/env"
cd "$MNGR_WORK_DIR" 2>/dev/null || _mngr_fail 125 "its work dir $MNGR_WORK_DIR is gone"
command -v "$1" >/dev/null 2>&1 || _mngr_fail 127 "$1: command not found"
[ -z "$_mngr_note" ] || echo $$ >"$_mngr_dir/proc"
unset _mngr_note _mngr_file _mngr_dir
unset -f _mngr_fail
exec "$@"
