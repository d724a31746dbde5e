# codex.sh CMD…: run Codex and report what its hooks do not report: that it accepts messages, and that a turn ended by an error
# or by Esc. program-status/1.json holds the unchanged row of Codex's own record about such an end.
#include short_sleep.sh
cd "$MNGR_AGENT_DIR" || exit 125
last=$CODEX_HOME/last # a link to the record of the conversation on the screen; codex_hook.sh sets it for each message
rm -f "$CODEX_HOME"/thread-writer-locks/*.lock program-status/*
# Codex's indexes hold absolute paths: after a clone or a move it would continue another agent's conversation. It rebuilds them.
if [ "$(cat "$CODEX_HOME/place" 2>/dev/null)" != "$CODEX_HOME" ]; then
    rm -f "$CODEX_HOME"/state_*.sqlite* "$CODEX_HOME"/thread_history_*.sqlite* "$CODEX_HOME"/queue_*.sqlite*
    printf '%s\n' "$CODEX_HOME" >"$CODEX_HOME/place"
fi
[ -e "$last" ] || : >"$last"
mkdir -p "$CODEX_HOME/own"
for file in "$CODEX_HOME"/sessions/*/*/*/rollout-*.jsonl; do # conversations from a clone or from --resume
    if [ -f "$file" ] && ! head -n 1 "$file" | grep -q '"source":{"subagent"'; then ln -f "$file" "$CODEX_HOME/own/"; fi
done 2>/dev/null
sift=cat
if echo | grep --line-buffered '' >/dev/null 2>&1; then sift='grep --line-buffered -e task_complete -e turn_aborted'; fi
is_ready() {
    set -- "$CODEX_HOME"/thread-writer-locks/[0-9a-f]*.lock
    [ -e "$1" ]
}
tell_ready() {
    until is_ready; do
        kill -0 $$ || exit 0
        nap 40
    done
    [ -s status ] || echo '{}' | sh ./hook.sh ready WAITING end_of_turn
}
tell_ends() {
    tail -n 0 -F "$last" | $sift | while IFS= read -r row; do
        case $row in
        '{"timestamp":"'*'"payload":{"type":"task_complete",'*'"error":{'* | '{"timestamp":"'*'"payload":{"type":"turn_aborted",'*) ;;
        *) continue ;;
        esac
        if [ ${#row} -gt 4000 ]; then row="${row%%,*},\"payload\":{\"error\":{\"codex_error_info\":${row##*\"codex_error_info\":}"; fi
        [ ${#row} -le 4000 ] || continue
        row="{\"zone\":\"$(date +%z)\",${row#?}" # its messages name times in the time zone of the host
        printf '%s\n' "$row" >program-status/new && mv -f program-status/new program-status/1.json
        printf '%s\n' "$row" | sh ./hook.sh turn_failed -
    done
}
tell_ends </dev/null >/dev/null 2>&1 &
tell_ready </dev/null >/dev/null 2>&1 &
cd "$MNGR_WORK_DIR" && exec "$@"
