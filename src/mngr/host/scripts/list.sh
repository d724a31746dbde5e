# list.sh HOME SOCKET [ID...]: prints everything that `list` needs. Each file has one line, which grep prints with its
# path. The first line is `home REALPATH UID` (- for an unknown uid). Without it, the home does not exist.
home=$1 socket=$2
shift 2
cd -P "$home" 2>/dev/null || exit 0
uid=${socket%/*}
uid=${uid##*/mngr-}
if ! [ -O "${socket%/*}" ]; then # the user's own directory has the uid in its name; otherwise look it up
    uid=-
    while read -r key _ value _; do
        case $key in Uid:) uid=$value && break ;; esac
    done 2>/dev/null </proc/self/status
fi
printf 'home %s %s\n' "$PWD" "$uid"
cd agents 2>/dev/null || exit 0
if [ -r /proc/sys/kernel/random/boot_id ]; then
    read -r boot </proc/sys/kernel/random/boot_id
    echo "boot $boot"
fi
if [ -e "${socket%/*}" ] && ! [ -O "${socket%/*}" ]; then
    echo stranger # another user owns the directory and the tmux server
elif [ -S "$socket" ]; then
    tmux -S "$socket" list-panes -a -F 'pane #{@mngr_id} #{@mngr_role} #{session_name} #{pane_id} #{pane_pid} #{pane_dead} #{window_activity} #{session_attached} #{session_created} #{pane_title}' 2>/dev/null
fi
files= has_status=
hex='[0-9a-f][0-9a-f][0-9a-f][0-9a-f]'
ids=a-$hex$hex$hex # an agent can create directories with misleading names
# Adds the status files that agents' programs write. The programs also choose the file names, so these are checked.
add_program_status() {
    for name; do
        case $name in *[!a-z0-9/.-]* | */program-status/*[!0-9]*.json) continue ;; esac
        if [ -f "$name" ] && ! [ -L "$name" ]; then files="$files $name" has_status=1; fi
    done
}
if [ $# -eq 0 ]; then
    set -- $ids
    [ -e "$1" ] || [ -L "$1" ] || exit 0
    printf 'dir %s\n' "$@"
    for name in agent.json exit stopped status proc; do
        set -- $ids/$name
        if [ -e "$1" ] || [ -L "$1" ]; then files="$files $*"; fi
    done
    add_program_status $ids/program-status/*.json
else
    printf 'dir %s\n' "$@"
    for id; do
        for name in agent.json exit stopped status proc; do
            [ ! -e "$id/$name" ] || files="$files $id/$name"
        done
        add_program_status "$id"/program-status/*.json
    done
fi
[ -n "$files" ] || exit 0
[ -z "$has_status" ] || date '+clock %s.%N' # times in these files are compared with it
set -f
# A huge line makes grep fail because of the memory limit. In this case, and if grep cannot skip pipes, `rows` reads
# everything again, more carefully.
(ulimit -v 32768 && LC_ALL=C exec grep -a -m 1 -d skip -D skip '' /dev/null $files) 2>/dev/null && exit 0
printf '\nagain\n'
#include read_first_lines.sh
rows $files
exit 0
