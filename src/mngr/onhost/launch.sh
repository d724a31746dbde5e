# launch.sh DIR: run the agent's command in this terminal and write down how it ended.
# Signals of the terminal reach the command itself; this shell only outlives it.
dir=$1
lib=${0%/*}
. "$dir/command" || exit 125
trap : HUP INT QUIT TERM
env -i TERM="$TERM" COLORTERM="${COLORTERM:-}" sh "$lib/enter.sh" -p "$dir" "$@"
code=$?
trap '' HUP INT QUIT TERM
printf '{"code":%d,"at":%d}\n' "$code" "$(date +%s)" >"$dir/exit.new" && mv -f "$dir/exit.new" "$dir/exit"
sh "$lib/event.sh" "$dir" exited wrapper "{\"code\":$code}"
