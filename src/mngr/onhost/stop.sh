# stop.sh SOCKET HOME GRACE REASON ID…: end the agents' processes and keep everything else.
# TERM first; HUP for shells that shrug at TERM; after the grace KILL for the whole session of each.
socket=$1 home=$2 grace=$3 reason=$4
shift 4
tmux_() { tmux -S "$socket" "$@" 2>/dev/null; }
now=$(date +%s)
ids=" $* "
for id; do
    [ -d "$home/agents/$id" ] || continue
    printf '{"at":%d,"reason":"%s"}\n' "$now" "$reason" >"$home/agents/$id/stopped"
done
panes=$(tmux_ list-panes -a -F '#{@mngr_id} #{session_id} #{pane_id} #{pane_pid} #{pane_dead} #{@mngr_role}')
ours=$(printf '%s\n' "$panes" | while read -r id rest; do case $ids in *" $id "*) echo "$id $rest" ;; esac; done)
[ -n "$ours" ] || exit 0
groups=$(printf '%s\n' "$ours" | while read -r _ _ _ pid dead _; do [ "$dead" = 1 ] || echo "-$pid"; done)
screens() {
    printf '%s\n' "$ours" | while read -r id _ pane _ _ role; do
        [ "$role" = agent ] && printf 'capture-pane -e -b mngr-%s -t %s\nsave-buffer -b mngr-%s "%s"\ndelete-buffer -b mngr-%s\n' \
            "$id" "$pane" "$id" "$home/agents/$id/screen" "$id"
    done
}
alive() {
    for g in $groups; do
        kill -0 -- "$g" 2>/dev/null && return 0
    done
    return 1
}
screens | tmux_ source-file -
if [ -n "$groups" ]; then
    kill -TERM -- $groups 2>/dev/null
    waited=0
    limit=$(awk "BEGIN { printf \"%d\", $grace * 50 }")
    while alive && [ $waited -lt "$limit" ]; do
        [ $waited -eq 15 ] && kill -HUP -- $groups 2>/dev/null
        sleep 0.02
        waited=$((waited + 1))
    done
fi
printf '%s\n' "$ours" | while read -r _ session _; do echo "kill-session -t '$session'"; done | sort -u | tmux_ source-file -
if [ -n "$groups" ]; then # what left its process group is still in the session
    sessions=$(printf '%s' "$groups" | tr -d - | tr '\n' ,)
    pkill -KILL -s "$sessions" 2>/dev/null || kill -KILL -- $groups 2>/dev/null
fi
exit 0
