# take_lock PATH SECONDS: returns 0 once this process holds the lock, 1 after SECONDS, 2 when PATH cannot be written.
# It uses flock on descriptor 9, as Python does, which ends with the process. Without flock, a link beside PATH names
# the owner; the link is removed when the owner is dead or from an earlier boot.
take_lock() {
    lock_for=$2 lock_end= lock_polls=0
    if command -v flock >/dev/null 2>&1; then
        { command exec 9<>"$1"; } 2>/dev/null || return 2 # open for reading, too: opening a pipe only for writing would wait for a reader
        flock -w "$2" 9 2>/dev/null || until flock -n 9; do # busybox has no -w
            lock_wait || return 1
        done
        return 0
    fi
    [ -d "${1%/*}" ] && [ -w "${1%/*}" ] || return 2
    find_boot
    find_began $$
    lock_me=$$:$boot:$began lock_link=${1%.lock}.owner
    until lock_by_link; do
        [ $((lock_polls % 10)) -ne 0 ] || lock_break_link "$1.break"
        lock_wait || return 1
    done
    trap '[ "$(readlink "$lock_link")" != "$lock_me" ] || rm -f "$lock_link"' EXIT
    trap 'exit 1' HUP INT TERM PIPE
}
lock_wait() { # waits for the next try; false when the time is over
    [ -n "$lock_end" ] || lock_end=$(($(date +%s) + lock_for + 1)) # whole seconds: never early
    if [ $((lock_polls % 10)) -eq 9 ] && [ "$(date +%s)" -ge "$lock_end" ]; then return 1; fi
    lock_polls=$((lock_polls + 1))
    nap 20
}
lock_by_link() {
    [ ! -L "$lock_link" ] && [ ! -e "$lock_link" ] && ln -s "$lock_me" "$lock_link" 2>/dev/null &&
        [ "$(readlink "$lock_link")" = "$lock_me" ] # otherwise ln created the link inside a directory of that name
}
lock_break_link() { # one process at a time, or a slow process would remove the next owner's link
    lock_owner=$(readlink "$lock_link") || return 0
    if owner_lives "$lock_owner"; then return; fi
    if mkdir "$1" 2>/dev/null; then
        [ "$(readlink "$lock_link")" != "$lock_owner" ] || rm -f "$lock_link"
        rmdir "$1"
    elif [ -n "$(find "$1" -prune -mmin +1 2>/dev/null)" ]; then
        rmdir "$1" 2>/dev/null
    fi
}
owner_lives() { # PID:BOOT[:BEGAN]
    case ${1%%:*} in *[!0-9]* | '') return 1 ;; esac
    case $1 in
    *":$boot" | *":$boot:") kill -0 "${1%%:*}" 2>/dev/null ;;
    *":$boot:"*)
        find_began "${1%%:*}"
        [ -n "$began" ] && [ "${1#*":$boot:"}" = "$began" ] # otherwise another process has this pid now
        ;;
    *) return 1 ;;
    esac
}
#include boot_id.sh
find_began() { # sets `began` to the start time of process $1 in any format; empty when it is dead
    if [ -r /proc/self/stat ]; then
        { read -r began <"/proc/$1/stat"; } 2>/dev/null || began=') Z'
        set -- ${began##*) }
        began=${20:-}
    else
        set -- $(ps -o stat= -o lstart= -p "$1" 2>/dev/null)
        began=$*
        began=${began#"$1 "}
    fi
    case ${1:-Z} in Z*) began= ;; esac
}
