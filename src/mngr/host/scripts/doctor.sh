# doctor.sh HOME SOCKET PROGRAM…: prints facts about this machine, one per line.
home=$1 socket=$2
shift 2
echo "system $(uname -s)"
echo "clock $(date +%s)"
for installer in brew apt-get apk dnf yum zypper pacman pkg; do
    command -v "$installer" >/dev/null 2>&1 && echo "installer $installer" && break
done
for program in flock "$@"; do
    [ "$program" != sshd ] || PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin # sshd is often not on the PATH; it is the last program in the list
    path=$(command -v "$program") && echo "program.$program $path"
done
command -v git >/dev/null 2>&1 && echo "version.git $(git --version)"
command -v tmux >/dev/null 2>&1 && echo "version.tmux $(tmux -V)"
command -v python3 >/dev/null 2>&1 && echo "version.python3 $(python3 -V 2>/dev/null)"
# The description can exist without infocmp. On a Mac its directory is the letter's code.
if infocmp tmux-256color >/dev/null 2>&1; then
    echo "terminfo yes"
else
    for place in "$HOME/.terminfo" /etc/terminfo /lib/terminfo /usr/share/terminfo; do
        if [ -e "$place/t/tmux-256color" ] || [ -e "$place/74/tmux-256color" ]; then echo "terminfo yes" && break; fi
    done
fi
place=$home
until [ -d "$place" ]; do # without dirname, which may be missing
    case $place in */*) place=${place%/*} ;; *) place=. ;; esac
    place=${place:-/}
done
[ -w "$place" ] && echo "writable yes"
df -Pk "$place" 2>/dev/null | awk 'NR == 2 && $4 ~ /^[0-9]+$/ { print "free.kb " $4 }'
df -Pi "$place" 2>/dev/null | awk 'NR == 2 && $2 > 0 && $4 ~ /^[0-9]+$/ && $5 ~ /%$/ { print "free.inodes " $4 }'
place=${socket%/*}
if [ -e "$place" ] && { [ -L "$place" ] || ! [ -O "$place" ]; }; then echo "stranger $place"; fi
if [ -S "$socket" ]; then
    sessions=$(tmux -S "$socket" list-sessions 2>&1) && echo "sessions $(printf '%s\n' "$sessions" | grep -c .)"
    echo "server $sessions"
fi
for dir in "$home"/agents/*/; do
    if [ -e "$dir/proc" ] && ! [ -e "$dir/exit" ] && ! [ -e "$dir/stopped" ]; then echo "running yes" && break; fi
done
exit 0
