# host_facts.sh [HOME [make]]: the first program on a host. It prints facts, one `key value` per line. HOME defaults to
# ~/.mngr. With `make` it creates the home, unless it prints a reason: stranger (a file that mngr did not create),
# newer (the layout's version) or unwritable (why).
umask 077
uid=$(id -u) user=$(id -un 2>/dev/null)
[ -n "$HOME" ] || eval "HOME=~$user"
case $1 in
'') home=$HOME/.mngr ;;
/*) home=$1 ;;
\~ | \~/*) home=$HOME${1#\~} ;;
*) home=$HOME/$1 ;;
esac
while :; do case $home in ?*/) home=${home%/} ;; *) break ;; esac; done

# Reports a home that another program owns. A home without a version file may only contain mngr's files.
check_home() {
    if [ -e "$home/version" ]; then
        word= layout=
        [ ! -f "$home/version" ] || read -r word layout <"$home/version"
        case $word:$layout in
        mngr:*[!0-9]* | mngr:) echo "stranger version" ;;
        mngr:*) [ "$layout" -le 1 ] || echo "newer $layout" ;;
        *) echo "stranger version" ;;
        esac
        return
    fi
    for entry in "$home"/* "$home"/.[!.]* "$home"/..?*; do
        case ${entry##*/} in
        agents | names | work | trash | snapshots | cache | lib | hosts | crashes | trust | settings.toml | settings.local.toml) ;;
        own_runs | history | notifications | runs | outputs | e2e | tmux.conf | tmux.socket | ssh | version*) ;;
        *) if [ -e "$entry" ] || [ -L "$entry" ]; then echo "stranger ${entry##*/}" && return; fi ;;
        esac
    done
}
make_home() {
    cd / && mkdir -p "$home/agents" "$home/names" "$home/work" "$home/cache" "$home/lib" || return
    [ -e "$home/version" ] || { echo 'mngr 1' >"$home/version.$$" && mv -f "$home/version.$$" "$home/version"; }
}
output=$(check_home 2>&1)
if [ -z "$output" ] && [ "$2" = make ]; then
    output=$(make_home 2>&1) || output="unwritable ${output##*: }"
fi

# Find the real path of the home, which may not exist yet.
place=$home rest=
until cd -P "$place" 2>/dev/null; do
    rest=/${place##*/}$rest
    place=${place%/*}
    [ -n "$place" ] || place=/
done
case $PWD in
/) real=${rest:-/} ;;
*) real=$PWD$rest ;;
esac
printf '%s\n' "home $real" "uid $uid" "login $user" "os $(uname -s)" "clock $(date +%s)"
[ -z "$output" ] || printf '%s\n' "$output"
#include boot_id.sh
find_boot
echo "boot $boot"
for program in git tmux tar find awk; do
    command -v "$program" >/dev/null 2>&1 || echo "missing $program"
done
output=$(git --version 2>/dev/null) && output=${output#git version } && echo "git ${output%% *}"
output=$(tmux -V 2>/dev/null) && echo "tmux ${output#tmux }"
for program in flock python3 rsync; do
    output=$(command -v "$program" 2>/dev/null) && echo "$program $output"
done
output=$(PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin command -v sshd 2>/dev/null) && echo "sshd $output"
df -Pk . 2>/dev/null | awk 'NR == 2 && $4 ~ /^[0-9]+$/ { print "free " $4 }'
{ read -r load _ </proc/loadavg; } 2>/dev/null || load=$(sysctl -n vm.loadavg 2>/dev/null | tr -d '{ ' | cut -c 1-4)
echo "load $load"
cpus=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null)
echo "cpus ${cpus:-1}"
agents=0
for dir in "$real"/agents/a-*/; do
    if [ -d "$dir" ] && ! [ -e "$dir/exit" ] && ! [ -e "$dir/stopped" ]; then agents=$((agents + 1)); fi
done
echo "agents $agents"
