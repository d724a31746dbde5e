# list_leftovers.sh HOME SOCKET: lists the names and leftovers in a home, each row ended by a NUL:
#   home                  always the first row
#   name NAME ID          a name and its agent, unless it was created in the last minute
#   dangling NAME ID      such a name without its agent
#   work NAME             a work dir that no agent uses
#   session SESSION NAME  a tmux session without its agent
#   empty ID              an agent without a record
#   left PATH             a file of an interrupted command
#   source NAME           a cached repository that was not used for a month
# An entry is omitted if find cannot tell its age.
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
