# start.sh SOCKET CONF LIB DIR NAME WORK [WINDOW CMD]...: starts the agent's session. Prints "running PID", or "ended"
# with exit code 10. WORK, WINDOW and CMD are quoted for tmux, which interprets # and a ; at the end. The server
# starts with a clean environment, so that no variable of mngr leaks into an agent.
#include short_sleep.sh
#include process_start.sh
socket=$1 conf=$2 lib=$3 dir=$4 name=$5 work=$6
shift 6
id=${dir##*/}
place=${socket%/*}
[ -d "$place" ] || mkdir -m 700 "$place" 2>/dev/null
if [ -L "$place" ] || ! [ -O "$place" ] || ! [ -d "$place" ]; then
    echo "$place does not belong to you, so mngr does not use it for tmux" >&2
    exit 9
fi
clean() {
    env -i HOME="$HOME" PATH="$PATH" SHELL=/bin/sh USER="${USER:-}" LANG="${LANG:-C.UTF-8}" \
        tmux -u -S "$socket" -f "$conf" "$@"
}
command -v tmux >/dev/null 2>&1 || exit 127
drop() {
    for old; do
        if [ -e "$dir/$old" ] || [ -L "$dir/$old" ]; then rm -rf "${dir:?}/$old"; fi
    done
}
drop exit proc status unstarted
[ ! -d "$dir/program-status" ] || rm -f "$dir"/program-status/*.json 2>/dev/null
# If another process owns the server, ask it to start the server. A server started here would end with this command.
keeper=${conf%/*}/keeper
if [ -r "$keeper" ] && read -r pid since <"$keeper" && [ "$(process_start "$pid")" = "$since" ] && kill -USR1 "$pid" 2>/dev/null; then
    until clean -N show-options -s >/dev/null 2>&1 || [ $napped -ge 10000 ]; do nap 10; done
    napped=0
fi
while :; do
    output=$(clean new-session -d -s "$name" -n agent -c "$work" sh "$lib/launch.sh" "$dir" \; \
        set-option -t "=$name:" @mngr_id "$id" \; set-option -p -t "=$name:" @mngr_role agent 2>&1) && break
    case $output in
    *"server exited"* | *"lost server"* | *"no server running"* | *"error connecting"*) ;;
    *)
        echo "$output" >&2
        exit 8
        ;;
    esac
    if [ $napped -ge 2000 ]; then
        echo "$output" >&2
        exit 8
    fi
    nap 50
done
drop stopped
while [ $# -ge 2 ]; do
    clean new-window -d -t "=$name:" -n "$1" -c "$work" \
        env -i TERM=tmux-256color sh "$lib/run_in_work_dir.sh" "$dir" sh -c "$2" || exit 8
    shift 2
done
napped=0 rested=0 look=500
until [ -s "$dir/proc" ] || [ -s "$dir/exit" ]; do
    if [ $napped -ge $look ]; then
        [ "$(clean list-panes -s -t "=$name:" -f '#{==:#{@mngr_role},agent}' -F '#{pane_dead}')" = 0 ] ||
            break # launch.sh could not even record its end
        look=$((napped + 500))
    fi
    if [ $napped -ge 20000 ]; then
        echo "the agent's process did not start within 20s" >&2
        exit 8
    fi
    rest 5 50
done
if [ -s "$dir/proc" ]; then
    read -r pid <"$dir/proc"
    echo "running $pid"
else
    echo ended
    cat "$dir/unstarted" 2>/dev/null || clean capture-pane -p -t "=$name:agent"
    exit 10
fi
