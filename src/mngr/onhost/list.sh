# list.sh HOME SOCKET [ID…]: everything `list` needs, in one go. Records are one line each, so grep names them.
home=$1 socket=$2
shift 2
cd "$home/agents" 2>/dev/null || exit 0
if [ -r /proc/sys/kernel/random/boot_id ]; then
    read -r boot </proc/sys/kernel/random/boot_id
    echo "boot $boot"
fi
if [ -e "${socket%/*}" ] && ! [ -O "${socket%/*}" ]; then
    echo stranger # somebody else's directory: his server is not ours
elif [ -S "$socket" ]; then
    tmux -S "$socket" list-panes -a -F 'pane #{@mngr_id} #{@mngr_role} #{session_name} #{pane_id} #{pane_pid} #{pane_dead} #{window_activity} #{session_attached}' 2>/dev/null
fi
if [ $# -eq 0 ]; then
    set -- *
    [ -d "$1" ] || exit 0
    printf 'dir %s\n' "$@"
    set -- */agent.json */exit */stopped */status */proc
else
    printf 'dir %s\n' "$@"
    files=
    for id; do
        files="$files $id/agent.json $id/exit $id/stopped $id/status $id/proc"
    done
    set -- $files
fi
LC_ALL=C grep -a -d skip -D skip '' /dev/null "$@" 2>/dev/null
exit 0
