# job.sh: a batch job that serves as a host. The lines before this script set: place (the home), shared (empty if
# the files are on the node's own disk), grace (the seconds that agents have to end). This script owns the tmux server,
# because a process that another job step starts ends with that step.
#include short_sleep.sh
#include process_start.sh
case $place in
\~/*) home=$HOME/${place#\~/} ;;
*) home=$place ;;
esac
umask 077
mkdir -p "$home" && cd "$home" || exit 1
exec >job.log 2>&1
[ -e version ] || { echo 'mngr 1' >version.new && mv -f version.new version; }
socket=
clean() {
    env -i HOME="$HOME" PATH="$PATH" SHELL=/bin/sh USER="${USER:-}" LANG="${LANG:-C.UTF-8}" tmux -u -S "$socket" "$@"
}
# Agents without a record of their end.
live() {
    for dir in agents/a-*/; do
        if [ -d "$dir" ] && ! [ -e "$dir/exit" ] && ! [ -e "$dir/stopped" ]; then basename "$dir"; fi
    done
}
finish() {
    trap '' TERM USR1
    reason="host stopped"
    id=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
    case $(timeout 1 squeue -h -j "${id:-$SLURM_JOB_ID}" -o %L 2>/dev/null) in 0:00 | INVALID) reason="time limit of the job" ;; esac
    ids=$(live)
    if [ -n "$ids" ] && [ -n "$socket" ]; then
        sh lib/current/stop.sh "$socket" "$home" "$grace" "$reason" $ids
        for id in $ids; do sh lib/current/add_event.sh "$home/agents/$id" stopped job "{\"reason\":\"$reason\"}"; done
    fi
    [ -z "$socket" ] || clean kill-server
    # Kill agents' processes that have left their session. Slurm may not find them if it tracks by parent.
    left=$(grep -lsF "MNGR_AGENT_DIR=$home/agents/" /proc/[0-9]*/environ | tr -dc '0-9\n')
    [ -z "$left" ] || kill -KILL $left
    rm -f keeper
    [ -n "$shared" ] || { cd / && rm -rf -- "$home"; }
    exit 0
}
trap finish TERM
trap : USR1
echo "$$ $(process_start $$)" >keeper.new && mv -f keeper.new keeper
# Slurm kills a job that does not end in time. This script needs half of that time for itself.
limit=$(timeout 10 scontrol show config 2>/dev/null | sed -n 's/^KillWait *= *\([0-9]*\).*/\1/p')
[ "$((${limit:-30} / 2))" -ge "$grace" ] || grace=$((limit / 2))
while :; do
    if [ -L tmux.socket ]; then
        socket=$(readlink tmux.socket)
        mkdir -m 700 "${socket%/*}" 2>/dev/null
        clean kill-server 2>/dev/null
        clean -D -f tmux.conf &
        while kill -0 $! 2>/dev/null; do wait $!; done
        nap 200
    else
        sleep 600 &
        wait $!
        kill $! 2>/dev/null
    fi
done
