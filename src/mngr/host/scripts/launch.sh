# launch.sh DIR: run the agent's command in this terminal and write down how it ended.
# Signals of the terminal reach the command itself; this shell only outlives it.
dir=$1
lib=${0%/*}
. "$dir/command" || exit 125
trap : INT QUIT TERM # not HUP: when the terminal goes, this shell's end is what tells the command
env -i TERM="$TERM" COLORTERM="${COLORTERM:-}" sh "$lib/enter.sh" -p -f "$dir/unstarted" "$dir" "$@"
code=$?
trap '' HUP INT QUIT TERM
[ ! -L "$dir/exit" ] || rm -f "$dir/exit"
printf '{"code":%d,"at":%d}\n' "$code" "$(date +%s)" >"$dir/exit"
set -- "$dir" exited wrapper "{\"code\":$code}"
. "$lib/event.sh"
