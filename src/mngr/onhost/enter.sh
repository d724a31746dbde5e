# enter.sh [-p] DIR CMD…: become CMD, in the agent's work dir with the agent's environment.
# -p writes the pid down first: from then on the agent's process really runs.
_mngr_note=
if [ "$1" = -p ]; then
    _mngr_note=1
    shift
fi
_mngr_dir=$1
shift
. "$_mngr_dir/env" || exit 125
cd "$MNGR_WORK_DIR" || exit 125
if [ -n "$_mngr_note" ]; then
    if ! command -v "$1" >/dev/null 2>&1; then
        printf 'mngr: %s: command not found\n' "$1" >&2
        exit 127
    fi
    echo $$ >"$_mngr_dir/proc"
fi
unset _mngr_note _mngr_dir
exec "$@"
