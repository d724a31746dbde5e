# settle.sh LIB VERSION CONF TEXT LINK SOCKET [NAME TEXT]...: put on the host what outlives a command: programs, tmux's configuration,
# the link to its socket. Does nothing that was done before.
lib=$1 version=$2 conf=$3 text=$4 link=$5 socket=$6
shift 6
umask 077
set -e
if ! [ -e "$lib/$version/complete" ]; then
    mkdir -p "$lib/$version" "$lib/$version.$$"
    while [ $# -ge 2 ]; do
        printf '%s\n' "$2" >"$lib/$version.$$/$1"
        shift 2
    done
    mv -f "$lib/$version.$$"/* "$lib/$version"
    rmdir "$lib/$version.$$"
    : >"$lib/$version/complete"
fi
if [ "$(readlink "$lib/current" 2>/dev/null)" != "$version" ]; then
    rm -f "$lib/current"
    ln -s "$version" "$lib/current" 2>/dev/null || [ -L "$lib/current" ]
fi
if ! [ -e "$conf" ] || [ "$(cat "$conf")" != "$text" ]; then
    printf '%s\n' "$text" >"$conf.$$"
    mv -f "$conf.$$" "$conf"
fi
[ -L "$link" ] || ln -s "$socket" "$link" 2>/dev/null || [ -L "$link" ]
