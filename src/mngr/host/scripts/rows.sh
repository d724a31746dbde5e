# rows FILE...: the first line of each, after its path and a colon. An agent can put anything in the place of its files, so
# only regular ones are read, and no large ones; what became a pipe just after we looked is not waited for.
rows_grep='grep -a -m 1 -D skip'
if ! echo | $rows_grep '' >/dev/null 2>&1; then # busybox
    rows_grep='grep -m 1'
    if timeout 9 true 2>/dev/null; then rows_grep="timeout 9 $rows_grep"; fi
fi
rows() {
    LC_ALL=C find "$@" -type f \( -size -129 -o -name agent.json -size -8193 \) -exec $rows_grep '' /dev/null {} + 2>/dev/null
}
