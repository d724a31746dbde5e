# sweep.sh HOME SOCKET: what lies about in a home, each row ended by a NUL: `home` first, `name NAME ID` (where a name points that is
# not just being given), `dangling NAME ID` (such a one without its agent), `work NAME` (that no agent has), `session SESSION NAME`
# (without its agent), `empty ID` (an agent that never got a record), `left PATH` (of an interrupted command) and `source NAME`
# (a copy of a repository that nobody has used for a month). Where find cannot tell how old something is, it is not named.
cd "$1" 2>/dev/null || exit 4
old() { [ -n "$(find "$1" -prune -mmin "+$2" 2>/dev/null)" ]; }
printf 'home\0'
for link in names/*; do
    if [ -L "$link" ] && old "$link" 1; then
        id=$(readlink "$link")
        if [ -d "agents/$id" ]; then kind=name; else kind=dangling; fi
        printf '%s %s %s\0' $kind "${link#names/}" "$id"
    fi
done
taken=$(grep -ho '"work_dir":"[^"]*"' /dev/null agents/a-*/agent.json 2>/dev/null)
for path in work/* work/.[!.]* work/..?*; do
    if [ -e "$path" ] || [ -L "$path" ]; then
        case $taken in *"/$path\""*) ;; *) printf 'work %s\0' "${path#work/}" ;; esac
    fi
done
if [ -S "$2" ] && [ -O "${2%/*}" ]; then
    tmux -S "$2" list-sessions -F '#{session_id} #{@mngr_id} #{session_name}' 2>/dev/null | while read -r session id name; do
        case $id in a-*) [ -d "agents/$id" ] || printf 'session %s %s\0' "$session" "$name" ;; esac
    done
fi
for dir in agents/a-*; do
    [ -d "$dir" ] && old "$dir" 1 || continue
    case $dir in *.gone)
        printf 'left %s\0' "$dir"
        continue
        ;;
    esac
    if ! [ -e "$dir/agent.json" ] && [ -z "$(find "$dir" -type f ! -name '*.new' ! -name lock ! -name restoring)" ]; then
        printf 'empty %s\0' "${dir#agents/}"
        continue
    fi
    for path in "$dir"/gather "$dir"/*.new; do
        if [ -e "$path" ] && old "$path" 1440; then printf 'left %s\0' "$path"; fi
    done
done
for repo in cache/sources/*.git; do
    if [ -d "$repo" ] && old "$repo" 43200; then printf 'source %s\0' "${repo##*/}"; fi
done
exit 0
