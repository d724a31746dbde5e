# stop.sh SOCKET HOME GRACE REASON ID...: ends the agents' processes and keeps everything else.
# It sends TERM, then HUP to shells that ignore TERM, and after GRACE seconds KILL to each agent's whole session.
#include short_sleep.sh
socket=$1 home=$2 grace=$3 reason=$4
shift 4
tmux_() { tmux -S "$socket" "$@" 2>/dev/null; }
now=$(date +%s)
ids=" $* "
for id; do
    [ -d "$home/agents/$id" ] || continue
    file=$home/agents/$id/stopped
    if [ -L "$file" ] || { [ -e "$file" ] && ! [ -f "$file" ]; }; then rm -rf "$file"; fi
    printf '{"at":%d,"reason":"%s"}\n' "$now" "$reason" >"$file"
done
panes=
if [ -O "${socket%/*}" ]; then
    panes=$(tmux_ list-panes -a -F '#{@mngr_id} #{session_id} #{pane_id} #{pane_pid} #{pane_dead} #{?pane_tty,#{pane_tty},-} #{@mngr_role}')
fi
ours=$(printf '%s\n' "$panes" | while read -r id rest; do case $ids in *" $id "*) echo "$id $rest" ;; esac; done)
sids=$(printf '%s\n' "$ours" | while read -r _ _ _ pid dead _; do [ "$dead" = 1 ] || echo "$pid"; done)
live=$(printf '%s\n' "$ours" | while read -r id _ _ _ dead _ role; do [ "$dead$role" = 0agent ] && printf ' %s ' "$id"; done)
# A process may have outlived its terminal. Its environment names its agent.
is_of() { # PID ID
    if [ -r /proc/self/stat ]; then
        [ -r "/proc/$1/environ" ] && tr '\0' '\n' 2>/dev/null <"/proc/$1/environ" | grep -qx "MNGR_AGENT_ID=$2"
    else
        ps eww -o command= -p "$1" 2>/dev/null | tr ' ' '\n' | grep -qx "MNGR_AGENT_ID=$2"
    fi
}
session_of() {
    if { read -r stat <"/proc/$1/stat"; } 2>/dev/null; then
        set -- ${stat##*) }
        [ "$4" -le 1 ] || echo "$4" # otherwise it is a session of the system
    else
        ps -o pgid= -p "$1" 2>/dev/null # a session's leader also leads a process group with the same id
    fi
}
for id; do
    case $live in *" $id "*) continue ;; esac
    [ -f "$home/agents/$id/proc" ] || continue
    { pid=$(head -c 20 "$home/agents/$id/proc"); } 2>/dev/null # an agent can make the file arbitrarily large
    case $pid in *[!0-9]* | '') continue ;; esac
    if is_of "$pid" "$id"; then sids="$sids $(session_of "$pid")"; fi
done
sids=$(echo $sids)
[ -n "$ours$sids" ] || exit 0
screens() {
    printf '%s\n' "$ours" | while read -r id _ pane _ _ _ role; do
        [ "$role" = agent ] && printf 'capture-pane -e -b mngr-%s -t %s\nsave-buffer -b mngr-%s "%s"\ndelete-buffer -b mngr-%s\n' \
            "$id" "$pane" "$id" "$home/agents/$id/screen" "$id"
    done
}
# Lists all processes of the sessions, in any process group. Reading /proc takes a quarter of the time of pgrep. Without
# /proc, ps may not support sessions, but it shows each process's terminal.
ttys=
[ -r /proc/self/stat ] || ttys=$(printf '%s\n' "$ours" | while read -r _ _ _ _ dead tty _; do
    case $dead$tty in 0/dev/*) printf ' %s ' "${tty#/dev/}" ;; esac
done)
members() {
    if [ -r /proc/self/stat ]; then
        cat /proc/[0-9]*/stat 2>/dev/null |
            awk -v all=" $sids " '{ pid = $1; sub(/.*\) /, ""); if (pid ~ /^[0-9]+$/ && $1 != "Z" && index(all, " " $4 " ")) print pid }'
    else
        ps -A -o pid= -o pgid= -o stat= -o tty= 2>/dev/null | awk -v all=" $sids " -v ttys="$ttys" \
            '$3 !~ /^Z/ && (index(all, " " $2 " ") || index(ttys, " " $4 " ")) { print $1 }'
    fi
}
signal() {
    pids=$(members)
    [ -z "$pids" ] || kill "-$1" $pids 2>/dev/null
}
ignores_term() {
    if [ -r /proc/self/status ]; then
        mask=0
        while read -r key mask; do
            [ "$key$mask" != Name:bwrap ] || return 1 # bwrap ends when the processes in the sandbox have ended
            [ "$key" != SigIgn: ] || break
        done <"/proc/$1/status"
        [ $((0x$mask & 0x4000)) -ne 0 ]
    else
        set -- $(ps -o args= -p "$1")
        case ${1##*/}:${2:-} in *sh:-c) false ;; *sh: | *sh:-*) ;; *) false ;; esac
    fi
}
hang_up() { # an interactive shell ignores TERM but ends on HUP; a process that handles TERM gets more time
    for pid in $(members); do
        if ignores_term "$pid"; then kill -HUP "$pid"; fi
    done 2>/dev/null
}
[ -z "$ours" ] || screens | tmux_ source-file -
clock() { # sets `t`, in hundredths of a second
    if { read -r t _ </proc/uptime; } 2>/dev/null; then t=${t%.*}${t#*.}; else t=$(($(date +%s) * 100)); fi
}
if [ -n "$sids" ]; then
    signal TERM
    clock
    hup=$((t + 30)) end=$((t + $(awk "BEGIN { printf \"%d\", $grace * 100 }")))
    [ -r /proc/uptime ] || end=$((end + 100)) # whole seconds: never early
    while [ -n "$(members)" ] && clock && [ "$t" -lt "$end" ]; do
        if [ "$t" -ge "$hup" ]; then
            hang_up
            hup=$end
        fi
        nap 20
    done
fi
printf '%s\n' "$ours" | while read -r _ session _; do [ -z "$session" ] || echo "kill-session -t '$session'"; done |
    sort -u | tmux_ source-file -
[ -z "$sids" ] || signal KILL
exit 0
