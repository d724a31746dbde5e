# doctor.sh HOME SOCKET PROGRAM…: what this machine has, a fact a line.
home=$1 socket=$2
shift 2
echo "system $(uname -s)"
for program; do
    path=$(command -v "$program") && echo "program.$program $path"
done
command -v git >/dev/null 2>&1 && echo "version.git $(git --version)"
command -v tmux >/dev/null 2>&1 && echo "version.tmux $(tmux -V)"
infocmp tmux-256color >/dev/null 2>&1 && echo "terminfo yes"
place=$home
until [ -d "$place" ] || [ "$place" = / ] || [ "$place" = . ]; do place=$(dirname "$place"); done
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
    if [ -e "$dir/proc" ] && ! [ -e "$dir/exit" ] && ! [ -e "$dir/stopped" ]; then echo "running yes"; fi
done
exit 0
