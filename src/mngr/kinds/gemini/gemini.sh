# gemini.sh run CMD… | ready|message|end <JSON: run Gemini CLI, or handle its hooks at the start and the end of a turn.
# The file gemini/idle exists while the next message would begin a turn. Gemini CLI merges messages that come during a turn.
# Only the record of the conversation shows which error ended a turn, and that somebody cancelled it.
#include short_sleep.sh
cd "$MNGR_AGENT_DIR" || exit 0
idle=gemini/idle
record=gemini/record # a link to the record of the conversation on the screen; the hooks set it
tell() { printf '%s\n' "$input" | sh ./hook.sh "$@"; }
last_error() {
    tail -n 12 "$record" 2>/dev/null | awk '
        /^{"id":"[^"]*","timestamp":"[^"]*","type":"(user|gemini)"/ { row = "" }
        /^{"id":"[^"]*","timestamp":"[^"]*","type":"error"/ { row = $0 }
        END { print row }'
}
end_turn() {
    [ ! -s "$idle" ] || return
    case $(last_error) in
    '') error= ;;
    *UNAUTHENTICATED* | *PERMISSION_DENIED* | *API_KEY_INVALID* | *'API key not valid'* | *'code\":401'* | *'code\":403'*)
        error=authentication_failed
        ;;
    *PerDay* | *'current quota'* | *'sage limit'*) error=usage_limit ;;
    *'code\":429'* | *'code\":503'* | *RESOURCE_EXHAUSTED* | *'rate limit'* | *overloaded* | *'increase your limits'*) error=rate_limit ;;
    *) error=failed ;;
    esac
    if [ -z "$error" ]; then
        tell turn_end WAITING end_of_turn
    else
        input="{\"error\":\"$error\"}"
        tell turn_failed WAITING end_of_turn
    fi
    echo >"$idle"
}
# No hook reports that a turn was cancelled while a tool ran or waited for permission.
watch() {
    until [ -e "$record" ]; do
        kill -0 $$ || exit 0
        nap 100
    done
    tail -n 0 -F "$record" | while IFS= read -r row; do
        case $row in '{"id":"'*'","type":"info","content":"Request cancelled."}')
            input={}
            end_turn
            ;;
        esac
    done
}
if [ "$1" = run ]; then
    shift
    rm -f "$idle" "$record"
    watch </dev/null >/dev/null 2>&1 &
    cd "$MNGR_WORK_DIR" && exec "$@"
fi
input=$(cat)
file=${input#*\"transcript_path\":\"}
ln -f "${file%%\"*}" "$record" 2>/dev/null
case $1 in
ready)
    tell ready WAITING end_of_turn
    # Gemini CLI redraws its screen after this hook and loses text that was typed before.
    { sleep 1 && echo >"$idle"; } </dev/null >/dev/null 2>&1 &
    ;;
message)
    rm -f "$idle"
    tell message RUNNING
    ;;
end) end_turn ;;
esac
exit 0
