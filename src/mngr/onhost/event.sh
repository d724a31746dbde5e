# event.sh DIR TYPE SOURCE DATA: append a row to the agent's events.
printf '{"v":1,"at":"%s","agent":"%s","type":"%s","source":"%s","data":%s}\n' \
    "$(date -u +%Y-%m-%dT%H:%M:%S.000Z)" "${1##*/}" "$2" "$3" "${4:-{\}}" >>"$1/events.jsonl"
