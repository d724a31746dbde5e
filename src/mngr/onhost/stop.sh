# stop.sh SOCKET HOME GRACE REASON ID…: end the agents' processes and keep everything else.
# TERM first; HUP for shells that ignore it; after the grace KILL for the whole session of each.
socket=$1 home=$2 grace=$3 reason=$4
shift 4
tmux_() { tmux -S "$socket" "$@" 2>/dev/null; }
now=$(date +%s)
ids=" $* "
for id; do
    [ -d "$home/agents/$id" ] || continue
    if [ -e "$home/agents/$id/stopped" ] && ! [ -f "$home/agents/$id/stopped" ]; then rm -rf "$home/agents/$id/stopped"; fi
    printf '{"at":%d,"reason":"%s"}\n' "$now" "$reason" >"$home/agents/$id/stopped"
done
panes=
if [ -O "${socket%/*}" ]; then
    panes=$(tmux_ list-panes -a -F '#{@mngr_id} #{session_id} #{pane_id} #{pane_pid} #{pane_dead} #{@mngr_role}')
fi
ours=$(printf '%s\n' "$panes" | while read -r id rest; do case $ids in *" $id "*) echo "$id $rest" ;; esac; done)
sids=$(printf '%s\n' "$ours" | while read -r _ _ _ pid dead _; do [ "$dead" = 1 ] || echo "$pid"; done)
live=$(printf '%s\n' "$ours" | while read -r id _ _ _ dead role; do [ "$dead$role" = 0agent ] && printf ' %s ' "$id"; done)
for id; do # a process may have outlived its terminal: its own environment says whose it is
    case $live in *" $id "*) continue ;; esac
    [ -f "$home/agents/$id/proc" ] || continue
    { read -r pid <"$home/agents/$id/proc"; } 2>/dev/null || continue
    case $pid in *[!0-9]* | '') continue ;; esac
    if tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -qx "MNGR_AGENT_ID=$id"; then
        sids="$sids $(ps -o sid= -p "$pid")"
    fi
done 2>/dev/null
sids=$(echo $sids)
[ -n "$ours$sids" ] || exit 0
screens() {
    printf '%s\n' "$ours" | while read -r id _ pane _ _ role; do
        [ "$role" = agent ] && printf 'capture-pane -e -b mngr-%s -t %s\nsave-buffer -b mngr-%s "%s"\ndelete-buffer -b mngr-%s\n' \
            "$id" "$pane" "$id" "$home/agents/$id/screen" "$id"
    done
}
# Every process of the sessions, whatever group it is in. Reading /proc costs a quarter of pgrep.
members() {
    if [ -r /proc/self/stat ]; then
        cat /proc/[0-9]*/stat 2>/dev/null |
            awk -v all=" $sids " '{ pid = $1; sub(/.*\) /, ""); if (pid ~ /^[0-9]+$/ && $1 != "Z" && index(all, " " $4 " ")) print pid }'
    else
        pgrep -s "$(echo "$sids" | tr ' ' ,)" 2>/dev/null
    fi
}
signal() {
    pids=$(members)
    [ -z "$pids" ] || kill "-$1" $pids 2>/dev/null
}
hang_up() { # a shell at a terminal ignores TERM and goes when that hangs up; who handles TERM may take his time
    for pid in $(members); do
        mask=0
        while read -r key mask; do [ "$key" != SigIgn: ] || break; done <"/proc/$pid/status"
        [ $((0x$mask & 0x4000)) -eq 0 ] || kill -HUP "$pid"
    done 2>/dev/null
}
alive() {
    for sid in $sids; do
        kill -0 -- "-$sid" 2>/dev/null && return 0
    done
    [ -n "$(members)" ]
}
[ -z "$ours" ] || screens | tmux_ source-file -
clock() { # in hundredths of a second
    if { read -r t _ </proc/uptime; } 2>/dev/null; then t=${t%.*}${t#*.}; else t=$(($(date +%s) * 100)); fi
}
if [ -n "$sids" ]; then
    signal TERM
    clock
    hup=$((t + 30)) end=$((t + $(awk "BEGIN { printf \"%d\", $grace * 100 }")))
    while alive && clock && [ "$t" -lt "$end" ]; do
        if [ "$t" -ge "$hup" ]; then
            hang_up
            hup=$end
        fi
        sleep 0.02
    done
fi
printf '%s\n' "$ours" | while read -r _ session _; do [ -z "$session" ] || echo "kill-session -t '$session'"; done |
    sort -u | tmux_ source-file -
[ -z "$sids" ] || signal KILL
exit 0
