# watch.sh SOCKET HOME LIB GRACE: stop agents that reached a limit; ends when no agent has one.
# An agent's `limit` file holds: idle seconds or -, lifetime seconds or -, and when it was made.
#include rows.sh
socket=$1 home=$2 lib=$3 grace=$4
quiet=0
cd "$home/agents" || exit 1
while :; do
    now=$(date +%s)
    pause=5
    quiet=$((quiet + 1))
    # Of each agent with a limit and a live pane: id, idle, life, made, last activity. Agents can write anything there.
    limited=$({
        tmux -S "$socket" list-panes -a -F 'pane #{@mngr_id} #{window_activity} #{pane_dead}' 2>/dev/null
        rows a-*/limit | tr / ' '
    } | awk '
        BEGIN { number = "^(0|[1-9][0-9]*)$" }
        $1 == "pane" { if ($4 == "0" && $3 > active[$2]) active[$2] = $3; next }
        sub(/^limit:/, "", $2) && NF == 4 && length($2) < 12 && length($3) < 12 && length($4) < 12 && $4 ~ number &&
            ($2 == "-" || $2 ~ number) && ($3 == "-" || $3 ~ number) && active[$1] { print $0, active[$1] }')
    while read -r id idle life made active; do
        if [ -z "$id" ] || [ -e "$id/stopped" ] || [ -e "$id/exit" ]; then continue; fi
        quiet=0
        for limit in "$idle" "$life"; do
            if [ "$limit" != - ] && [ "$limit" -lt 60 ]; then pause=1; fi
        done
        reason=
        if [ "$idle" != - ] && [ $((now - active)) -ge "$idle" ]; then reason=idle; fi
        if [ "$life" != - ] && [ $((now - made)) -ge "$life" ]; then reason=lifetime; fi
        if [ -n "$reason" ]; then
            sh "$lib/stop.sh" "$socket" "$home" "$grace" "$reason" "$id" </dev/null
            sh "$lib/event.sh" "$home/agents/$id" stopped watcher "{\"reason\":\"$reason\"}" </dev/null
        fi
    done <<EOF
$limited
EOF
    if [ $quiet -gt 0 ]; then
        [ $quiet -lt 3 ] || exit 0 # right after a look; `list` says so when a limit set in this very moment is missed
        pause=1
    fi
    sleep "$pause"
done
