# rows FILE...: prints the first line of each file after its path and a colon. An agent can replace its files by
# anything, so only small regular files are read. A file that becomes a pipe in the meantime does not block.
rows_grep='grep -a -m 1 -D skip'
if ! echo | $rows_grep '' >/dev/null 2>&1; then # busybox
    rows_grep='grep -m 1'
    if timeout 9 true 2>/dev/null; then rows_grep="timeout 9 $rows_grep"; fi
fi
rows() {
    LC_ALL=C find "$@" -type f \( -size -129 -o -name agent.json -size -8193 \) -exec $rows_grep '' /dev/null {} + 2>/dev/null
}
