# launch.sh DIR: runs the agent's command in this terminal and records its exit code.
# The command itself gets the signals of the terminal; this shell only outlives it.
dir=$1
lib=${0%/*}
. "$dir/command" || exit 125
trap : INT QUIT TERM # not HUP: when the terminal closes, the end of this shell signals the command
env -i TERM="$TERM" COLORTERM="${COLORTERM:-}" sh "$lib/run_in_work_dir.sh" -p -f "$dir/unstarted" "$dir" "$@"
code=$?
trap '' HUP INT QUIT TERM
[ ! -L "$dir/exit" ] || rm -f "$dir/exit"
printf '{"code":%d,"at":%d}\n' "$code" "$(date +%s)" >"$dir/exit"
set -- "$dir" exited wrapper "{\"code\":$code}"
. "$lib/add_event.sh"
