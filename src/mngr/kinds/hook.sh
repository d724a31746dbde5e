# hook.sh TYPE STATE [REASON] <JSON: write what a program reports to its status file and to the agent's events.jsonl.
# A STATE of - keeps the status. The hook prints nothing and never fails, because the program reads its output and waits for it.
# A `message` is stored completely, because it proves a delivery. Other JSON is stored only when it is small.
umask 077
input=$(cat)
case $input in '{'*'}') ;; *) input={} ;; esac
cd "$MNGR_AGENT_DIR" 2>/dev/null || exit 0
value_of() { # KEY: set `value` to its text in the JSON, up to the first escaped character
    value=
    case $input in *"\"$1\":\""*)
        value=${input#*"\"$1\":\""}
        value=${value%%[\"\\]*}
        ;;
    esac
}
value_of transcript_path
path=$value
# Wait until Claude's record holds the last rows of the turn. Claude may write the end of a turn, a request and even the first
# message of the turn into its record after the hook has started. A client that sees WAITING can then read the whole turn.
see_record() {
    case $path in */claude/projects/*) ;; *) return ;; esac
    case $input in *'"agent_id":"'*) return ;; esac # a sub-agent has its own record
    value_of prompt_id
    prompt=$value
    if [ "$1" = permission ]; then
        value_of tool_name
        text="\"name\":\"$value\""
    else
        value_of last_assistant_message
        text=$(printf %.100s "$value")
    fi
    tries=0
    until is_written || [ $tries -ge 100 ]; do
        sleep 0.02 2>/dev/null || return
        tries=$((tries + 1))
    done
}
is_written() {
    tail -n 60 "$path" 2>/dev/null | LC_ALL=C awk -v prompt="$prompt" -v text="$text" '
        { at = match($0, /"timestamp":"[^"]*/) ? substr($0, RSTART, RLENGTH) : "" }
        /"type":"assistant"/ { is_told = text == "" || index($0, text); told = at; next }
        !/"type":"user"/ { next }
        prompt != "" && index($0, "\"promptId\":\"" prompt "\"") {
            if (!asked) asked = at
            if (!/"type":"tool_result"/) next # the message itself, which Claude may write late
        }
        { is_told = 0 }
        END { exit !(is_told && (prompt == "" || asked) && told >= asked) }'
}
case $1 in turn_end | turn_failed | permission) see_record "$1" ;; esac
# Some programs report a question to the user as a permission. Nobody may allow it, because that would answer the question.
# (This avoids ${input#…}: in a long text without a match, some shells take minutes.)
case $1$input in
permission*'"tool_name":"AskUserQuestion"'* | permission*'"details":{"type":"ask_user"'*) set -- question WAITING question ;;
esac
#include timestamp.sh
# Print the number of messages that came during the turn and begin the next one at once, if the program's record has them.
count_waiting() {
    [ -f "$path" ] || return
    awk '/"type":"queue-operation"/ {
        if (/"operation":"enqueue"/) n++; else if (/"operation":"popAll"/) n = 0; else n--
    } END { if (n > 0) print n }' "$path" 2>/dev/null
}
if [ -L events.jsonl ] || { [ -e events.jsonl ] && ! [ -f events.jsonl ]; }; then exit 0; fi
exec 9>>events.jsonl || exit 0
if command -v flock >/dev/null 2>&1; then flock 9; fi # the status and its row in events.jsonl must have the same order
more= alone= was=
if [ -f status ]; then read -r was <status; fi
# "alone" marks the only message since the agent was idle: when its turn ends, no other message can begin the next turn.
case $1$was in
message*'"message_at":'* | message*'"error":'*) ;;
message*'"state":"WAITING","reason":"end_of_turn",'*) alone=',"alone":true' ;;
message*) ;;
*'"alone":true'*) alone=',"alone":true' ;;
esac
is_near() { # TIMESTAMP TIMESTAMP: true when the second is at most one second after the first
    awk -v a="$1" -v b="$2" 'BEGIN {
        split(a, x, /[T:Z]/)
        split(b, y, /[T:Z]/)
        exit x[1] == y[1] && (y[2] - x[2]) * 3600 + (y[3] - x[3]) * 60 + y[4] - x[4] > 1
    }'
}
if [ "$1" = turn_end ]; then
    [ -z "$(count_waiting)" ] || set -- "$1" RUNNING queued
    if [ -z "$alone" ]; then
        last=$(tail -n 50 events.jsonl | grep '"type":"message"' | tail -n 1)
        last=${last#*\"at\":\"}
        last=${last%%\"*}
        if [ "$3" = queued ] || is_near "$last" "$at"; then more=",\"message_at\":\"$last\""; fi
    fi
fi
case $3 in end_of_turn | queued) alone= ;; esac
if [ "$2" != - ]; then
    value_of error
    if [ -n "$value" ]; then
        more=",\"error\":\"$value\""
        value_of last_assistant_message
        [ -z "$value" ] || [ ${#value} -gt 300 ] || more="$more,\"message\":\"$value\""
    fi
    [ ${#more} -le 400 ] || more=
    row="{\"state\":\"$2\",\"reason\":\"$3\",\"at\":\"$at\"$more$alone}"
    if [ -w . ]; then
        printf '%s\n' "$row" >"status.$$" && mv -f "status.$$" status
    elif [ -f status ]; then # a sandbox allows only changes to the content; the rest of a longer status stays after the line's end
        printf '%s\n' "$row" 1<>status
    fi
fi
if [ "$1" != message ] && [ ${#input} -gt 4000 ]; then input={}; fi
row() {
    printf '{"v":1,"at":"%s","agent":"%s","type":"%s","source":"hook","data":%s}\n' "$at" "${PWD##*/}" "$1" "$input"
}
if [ ${#input} -le 4000 ]; then
    row "$1" >&9
else # in one write, because other processes append to this file too
    long=$(mktemp) && row "$1" >"$long" && cat "$long" >&9
    rm -f "$long"
fi
exit 0
