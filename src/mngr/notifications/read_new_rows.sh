# read_new_rows.sh AGENTS MARK LIMIT BACKLOG [ID OFFSET]...: print the events of agents from a byte on.
# A line `MARK ID OFFSET SIZE` comes first, then at most LIMIT bytes. Of a long backlog only the last BACKLOG bytes count.
cd "$1" || exit 0
mark=$2 limit=$3 backlog=$4
shift 4
while [ $# -gt 1 ]; do
    file=$1/events.jsonl
    offset=$2
    if [ -f "$file" ] && ! [ -L "$file" ]; then
        size=$(wc -c <"$file")
        size=$((size))
        [ "$offset" -le "$size" ] || offset=$size
        [ $((size - offset)) -le "$backlog" ] || offset=$((size - backlog))
        printf '%s %s %s %s\n' "$mark" "$1" "$offset" "$size"
        [ "$offset" -eq "$size" ] || tail -c "+$((offset + 1))" "$file" | head -c "$limit"
        echo
    fi
    shift 2
done
