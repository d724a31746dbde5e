# run_in_work_dir.sh [-p] [-n] [-f FILE] DIR CMD...: becomes CMD in the agent's work dir, with the agent's environment and sandbox.
# The Python environment that set-up created in the work dir is active, unless -n is given.
# -p first writes the pid to a file, which shows that the agent's process runs.
# -f writes the reason to FILE if CMD cannot be started; without -p the exit code is then 125.
_mngr_note= _mngr_file= _mngr_inactive=
while :; do
    case $1 in
    -p) _mngr_note=1 ;;
    -n) _mngr_inactive=1 ;;
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
# Finds the program $1, which must not be a shell builtin. It runs here and inside the agent's sandbox.
_mngr_has='_mngr_at=
case $1 in
*/*) if [ -f "$1" ] && [ -x "$1" ]; then _mngr_at=$1; fi ;;
*)
    _mngr_left=$PATH:
    while [ -z "$_mngr_at" ] && [ -n "$_mngr_left" ]; do
        _mngr_try=${_mngr_left%%:*}
        _mngr_try=${_mngr_try:-.}/$1
        _mngr_left=${_mngr_left#*:}
        if [ -f "$_mngr_try" ] && [ -x "$_mngr_try" ]; then _mngr_at=$_mngr_try; fi
    done
    ;;
esac
[ -n "$_mngr_at" ]'
[ -r "$_mngr_dir/env" ] || _mngr_fail 125 "the agent's environment file is missing"
. "$_mngr_dir/env"
cd "$MNGR_WORK_DIR" 2>/dev/null || _mngr_fail 125 "the agent's work dir $MNGR_WORK_DIR no longer exists"
_mngr_path=$PATH _mngr_venv=
if [ -z "$_mngr_inactive" ]; then
    for _mngr_try in .venv/pyvenv.cfg */pyvenv.cfg .[!.]*/pyvenv.cfg; do
        if [ -f "$_mngr_try" ] && [ -x "${_mngr_try%/*}/bin/python" ]; then
            _mngr_venv=$MNGR_WORK_DIR/${_mngr_try%/*}
            PATH=$_mngr_venv/bin:$PATH
            break
        fi
    done
fi
eval "$_mngr_has" || _mngr_fail 127 "$1: command not found"
_mngr_sandbox() { exec "$@"; }
if [ -n "${MNGR_SANDBOX:-}" ]; then
    [ -r "$_mngr_dir/sandbox" ] || _mngr_fail 125 "the agent's sandbox files are missing; mngr start creates them again"
    . "$_mngr_dir/sandbox"
    # Outside the sandbox, no program is searched in the work dir: the agent can write to it.
    _mngr_inner=$PATH PATH=$_mngr_path
    case $_mngr_at in
    /usr/* | /bin/*) ;; # visible in every sandbox
    *)
        (_mngr_alone=1 _mngr_sandbox /usr/bin/env "PATH=$_mngr_inner" /bin/sh -c "$_mngr_has" has "$1") </dev/null ||
            _mngr_fail 127 "$1: command not found in the agent's sandbox"
        ;;
    esac
    [ -z "$_mngr_venv" ] || set -- /usr/bin/env -u PYTHONHOME "PATH=$_mngr_inner" "VIRTUAL_ENV=$_mngr_venv" "$@"
elif [ -n "$_mngr_venv" ]; then
    export VIRTUAL_ENV="$_mngr_venv"
    unset PYTHONHOME
fi
[ -z "$_mngr_note" ] || echo $$ >"$_mngr_dir/proc" || _mngr_fail 125 "cannot write to $_mngr_dir"
unset OLDPWD _mngr_note _mngr_file _mngr_inactive _mngr_dir _mngr_has _mngr_at _mngr_left _mngr_try
unset _mngr_path _mngr_inner _mngr_venv
unset -f _mngr_fail
_mngr_sandbox "$@"
