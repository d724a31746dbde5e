# stay.sh CALM: mngr-stay. Runs until no agent has shown or computed anything for CALM seconds; one does at a time. For engines to
# which a machine in which no command runs is idle, whatever its agents do.
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
    # A twentieth of a processor is more than waiting takes.
    # Where there is no agent yet, there may be one soon.
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
