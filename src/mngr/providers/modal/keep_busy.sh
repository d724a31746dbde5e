# keep_busy.sh CALM: mngr-stay. Runs until no agent has written or computed anything for CALM seconds. One instance runs.
# It is for engines that treat a machine as idle when no command of theirs runs, whatever its agents do.
calm=$1 quiet=0 before=0 note=/tmp/.mngr-stay
if read -r pid <"$note" && tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q mngr-stay; then exit 0; fi 2>/dev/null
echo $$ >"$note"
pause=5
[ "$calm" -ge 30 ] || pause=1
while [ "$quiet" -le "$calm" ]; do
    sleep "$pause"
    for socket in /tmp/mngr-*/????????????; do
        [ ! -S "$socket" ] || tmux -S "$socket" list-panes -a -F '#{@mngr_role} #{pane_dead} #{window_activity}' 2>/dev/null
    done >"$note.seen"
    ticks=$(cat /proc/[0-9]*/stat 2>/dev/null | sed 's/^.*) //' | awk '{ sum += $12 + $13 } END { print sum + 0 }')
    last=$(awk '$1 == "agent" && $3 + 0 > last { last = $3 } END { print last + 0 }' "$note.seen")
    # An agent that only waits takes less than a twentieth of a processor.
    # A machine without a running agent counts as quiet, but stays for CALM seconds because an agent may come.
    if ! grep -q '^agent 0 ' "$note.seen"; then
        quiet=$((quiet + pause))
    elif [ $((ticks - before)) -ge $((pause * 5)) ] || [ $(($(date +%s) - last)) -le $((pause + 1)) ]; then
        quiet=0
    else
        quiet=$((quiet + pause))
    fi
    before=$ticks
done
rm -f "$note" "$note.seen"
