# add_event.sh DIR TYPE SOURCE DATA: appends a row to the agent's events, unless the agent has put a pipe or a link there.
file=$1/events.jsonl
if [ -L "$file" ] || { [ -e "$file" ] && ! [ -f "$file" ]; }; then exit 0; fi
#include timestamp.sh
printf '{"v":1,"at":"%s","agent":"%s","type":"%s","source":"%s","data":%s}\n' \
    "$at" "${1##*/}" "$2" "$3" "${4:-{\}}" >>"$file"
