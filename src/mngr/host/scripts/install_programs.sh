# install_programs.sh LIB VERSION CONF TEXT LINK SOCKET [NAME TEXT]...: installs on the host what outlives a command: programs,
# tmux's configuration and the link to its socket. It skips what is installed already.
lib=$1 version=$2 conf=$3 text=$4 link=$5 socket=$6
shift 6
umask 077
set -e
if ! [ -e "$lib/$version/complete" ]; then
    fresh=$lib/$version.$$
    mkdir "$fresh"
    while [ $# -ge 2 ]; do
        printf '%s\n' "$2" >"$fresh/$1"
        shift 2
    done
    : >"$fresh/complete"
    [ -e "$lib/$version" ] || mv "$fresh" "$lib/$version"
    # Another process was faster or was interrupted. If the directory exists, `mv` moves the new one into it.
    [ ! -e "$lib/$version/${fresh##*/}" ] || fresh=$lib/$version/${fresh##*/}
    if [ -e "$fresh" ]; then
        mv -f "$fresh"/* "$lib/$version"
        rmdir "$fresh"
    fi
fi
if ! [ -L "$lib/current" ] || [ "$(readlink "$lib/current")" != "$version" ]; then
    [ ! -L "$lib/current" ] || rm -f "$lib/current"
    ln -s "$version" "$lib/current" 2>/dev/null || [ -L "$lib/current" ]
fi
if ! [ -e "$conf" ]; then
    printf '%s\n' "$text" >"$conf"
elif [ "$(cat "$conf")" != "$text" ]; then
    printf '%s\n' "$text" >"$conf.$$"
    mv -f "$conf.$$" "$conf"
fi
[ -L "$link" ] || ln -s "$socket" "$link" 2>/dev/null || [ -L "$link" ]
