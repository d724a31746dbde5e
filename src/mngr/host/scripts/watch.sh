# watch.sh SOCKET HOME LIB GRACE: stops agents that have reached a limit, and ends when no agent has a limit.
# An agent's `limit` file holds: idle seconds or -, lifetime seconds or -, the time of its creation, and what counts as
# activity (output, input, process, or several with commas; default: output).
#include read_first_lines.sh
socket=$1 home=$2 lib=$3 grace=$4
quiet=0 spent=
cd "$home/agents" || exit 1
look() {
    tmux -S "$socket" list-panes -a -F 'pane #{@mngr_id} #{window_activity} #{pane_dead} #{session_activity} #{pane_pid}' 2>/dev/null
    printf '%s\n' "$spent"
    [ -z "$spent" ] || cat /proc/[0-9]*/stat 2>/dev/null | sed 's/^/stat /'
    rows a-*/limit a-*/input | tr / ' '
}
# Prints for each agent with a limit and a live pane: `agent`, id, idle, life, creation time, last activity; and
# `spent`, id, processor time of its processes, time of the last change. Agents can write anything into their files.
weigh() {
    awk -v now="$now" '
        BEGIN { number = "^(0|[1-9][0-9]*)$" }
        $1 == "pane" {
            if ($4 != "0") next
            if ($3 + 0 > output[$2] + 0) output[$2] = $3
            if ($5 + 0 > input[$2] + 0) input[$2] = $5
            leader[$6] = $2
            next
        }
        $1 == "spent" { before[$2] = $3; since[$2] = $4; next }
        $1 == "stat" {
            sub(/^stat [0-9]+ .*\) /, "")
            if ($4 in leader) ticks[leader[$4]] += $12 + $13 + $14 + $15
            next
        }
        sub(/^input:/, "", $2) {
            if (NF == 2 && length($2) < 12 && $2 ~ number && $2 + 0 > input[$1] + 0) input[$1] = $2
            next
        }
        sub(/^limit:/, "", $2) && (NF == 4 || NF == 5) && length($2) < 12 && length($3) < 12 && length($4) < 12 &&
            $4 ~ number && ($2 == "-" || $2 ~ number) && ($3 == "-" || $3 ~ number) && output[$1] {
            limit[$1] = $2 " " $3 " " $4
            what[$1] = NF == 5 ? $5 : "output"
        }
        END {
            for (id in limit) {
                active = 0
                if (what[id] ~ /output/) active = output[id]
                if (what[id] ~ /input/ && input[id] + 0 > active + 0) active = input[id]
                if (what[id] ~ /process/) {
                    if (!(id in before) || before[id] != ticks[id] + 0) since[id] = now
                    print "spent", id, ticks[id] + 0, since[id]
                    if (since[id] + 0 > active + 0) active = since[id]
                }
                print "agent", id, limit[id], active
            }
        }'
}
# True when the host may stop. On such a host, /etc/mngr-halt names the file to create for that. No agent may run or
# be in creation, and each agent with a limit was stopped by it or ended at least as long ago as its idle limit.
is_idle() {
    [ -r /etc/mngr-halt ] || return 1
    {
        tmux -S "$socket" list-panes -a -F 'pane #{@mngr_role} #{pane_dead}' 2>/dev/null
        rows a-*/agent.json | grep -q '"phase":"creating"' && echo busy
        rows a-*/limit a-*/exit a-*/stopped | tr / ' '
    } | awk -v now="$now" '
        $1 == "busy" || $0 == "pane agent 0" { busy = 1 }
        sub(/^limit:/, "", $2) { limit[$1] = $2 + 0 }
        match($0, /"at":[0-9]+/) { at = substr($0, RSTART + 5, RLENGTH - 5); if (at > over[$1] + 0) over[$1] = at }
        /"reason":"(idle|lifetime)"/ { reached[$1] = 1 }
        END {
            for (id in limit) { any = 1; if (!(id in reached) && over[id] + limit[id] > now) busy = 1 }
            exit busy || !any
        }'
}
while :; do
    now=$(date +%s)
    pause=5
    quiet=$((quiet + 1))
    seen=$(look | weigh)
    spent=$(printf '%s\n' "$seen" | grep '^spent ')
    while read -r word id idle life made active; do
        if [ "$word" != agent ] || [ -e "$id/stopped" ] || [ -e "$id/exit" ]; then continue; fi
        quiet=0
        for limit in "$idle" "$life"; do
            if [ "$limit" != - ] && [ "$limit" -lt 60 ]; then pause=1; fi
        done
        reason=
        if [ "$idle" != - ] && [ $((now - active)) -ge "$idle" ]; then reason=idle; fi
        if [ "$life" != - ] && [ $((now - made)) -ge "$life" ]; then reason=lifetime; fi
        if [ -n "$reason" ]; then
            sh "$lib/stop.sh" "$socket" "$home" "$grace" "$reason" "$id" </dev/null
            sh "$lib/add_event.sh" "$home/agents/$id" stopped watcher "{\"reason\":\"$reason\"}" </dev/null
        fi
    done <<EOF
$seen
EOF
    if [ $quiet -gt 0 ]; then
        pause=1
        if [ $quiet -ge 3 ]; then # right after a check; `list` reports a limit that was set in this moment and missed
            [ -r /etc/mngr-halt ] || exit 0
            if is_idle; then
                read -r marker </etc/mngr-halt
                : >"$marker"
                exit 0
            fi
            pause=5
        fi
    fi
    sleep "$pause"
done
