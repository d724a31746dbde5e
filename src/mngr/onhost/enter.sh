# enter.sh [-p] [-f FILE] DIR CMD…: become CMD, in the agent's work dir with the agent's environment.
# -p writes the pid down first: from then on the agent's process really runs.
# -f says in FILE why CMD could not be started; without -p the exit code is then 125.
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
        [ -n "$_mngr_note" ] || exit 125
    fi
    echo "mngr: $2" >&2
    exit "$1"
}
_mngr_has() { # a program, not a word that only a shell knows
    case $1 in
    */*)
        [ -f "$1" ] && [ -x "$1" ]
        return
        ;;
    esac
    _mngr_path=$PATH:
    while [ -n "$_mngr_path" ]; do
        _mngr_try=${_mngr_path%%:*}
        _mngr_try=${_mngr_try:-.}/$1
        _mngr_path=${_mngr_path#*:}
        if [ -f "$_mngr_try" ] && [ -x "$_mngr_try" ]; then return 0; fi
    done
    return 1
}
[ -r "$_mngr_dir/env" ] || _mngr_fail 125 "its environment file is gone"
. "$_mngr_dir/env"
cd "$MNGR_WORK_DIR" 2>/dev/null || _mngr_fail 125 "its work dir $MNGR_WORK_DIR is gone"
_mngr_has "$1" || _mngr_fail 127 "$1: command not found"
[ -z "$_mngr_note" ] || echo $$ >"$_mngr_dir/proc" || _mngr_fail 125 "cannot write to $_mngr_dir"
unset OLDPWD _mngr_note _mngr_file _mngr_dir _mngr_path _mngr_try
unset -f _mngr_fail _mngr_has
exec "$@"
