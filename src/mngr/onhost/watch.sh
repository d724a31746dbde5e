# watch.sh SOCKET HOME LIB GRACE: stop agents that reached a limit; ends when no agent has one.
# An agent's `limit` file holds: idle seconds or -, lifetime seconds or -, and when it was made.
socket=$1 home=$2 lib=$3 grace=$4
quiet=0
while :; do
    now=$(date +%s)
    pause=5
    quiet=$((quiet + 1))
    panes=$(tmux -S "$socket" list-panes -a -F '#{@mngr_id} #{window_activity} #{pane_dead}' 2>/dev/null)
    for file in "$home"/agents/*/limit; do
        [ -f "$file" ] || continue
        dir=${file%/limit}
        id=${dir##*/}
        if [ -e "$dir/stopped" ] || [ -e "$dir/exit" ]; then continue; fi
        read -r idle life made <"$file" || continue
        case ${idle#-}${life#-}$made in *[!0-9]*) continue ;; esac # agents can write here
        [ -n "$idle" ] && [ -n "$life" ] && [ -n "$made" ] || continue
        active=$(printf '%s\n' "$panes" | awk -v id="$id" '$1 == id && $3 == 0 && $2 > m { m = $2 } END { print m + 0 }')
        [ "$active" -gt 0 ] || continue
        quiet=0
        for limit in "$idle" "$life"; do
            if [ "$limit" != - ] && [ "$limit" -lt 60 ]; then pause=1; fi
        done
        reason=
        if [ "$idle" != - ] && [ $((now - active)) -ge "$idle" ]; then reason=idle; fi
        if [ "$life" != - ] && [ $((now - made)) -ge "$life" ]; then reason=lifetime; fi
        if [ -n "$reason" ]; then
            sh "$lib/stop.sh" "$socket" "$home" "$grace" "$reason" "$id"
            sh "$lib/event.sh" "$dir" stopped watcher "{\"reason\":\"$reason\"}"
        fi
    done
    if [ $quiet -gt 0 ]; then
        [ $quiet -lt 3 ] || exit 0 # right after a look; `list` says so when a limit set in this very moment is missed
        pause=1
    fi
    sleep "$pause"
done
