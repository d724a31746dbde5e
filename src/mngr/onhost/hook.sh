# hook.sh TYPE STATE [REASON] <JSON: what a program tells of itself, as its status and as a row of the agent's events.
# STATE - leaves the status alone. It says nothing and never fails, for the program listens and waits. Of a `message` all is
# kept, for that proves a delivery; of the rest what is small.
umask 077
said=$(cat)
case $said in '{'*'}') ;; *) said={} ;; esac
cd "$MNGR_AGENT_DIR" 2>/dev/null || exit 0
path=
case $said in *'"transcript_path":"'*)
    path=${said#*\"transcript_path\":\"}
    path=${path%%\"*}
    ;;
esac
# Who waits has the whole conversation: the answer that ended the turn may still be on its way into the program's record of it.
see_answer() {
    case $path in */claude/projects/*) ;; *) return ;; esac
    tries=0
    while [ -f "$path" ] && [ $tries -lt 25 ]; do
        row=$(tail -n 60 "$path" 2>/dev/null | grep -e '"type":"user"' -e '"type":"assistant"' | tail -n 1)
        case $row in *'"type":"assistant"'*) return ;; esac
        sleep 0.02 2>/dev/null || return
        tries=$((tries + 1))
    done
}
[ "$1" != turn_end ] || see_answer
# A question to the user passes some programs' gate for permissions; nobody may allow it, for that would be an answer.
# (Not by ${said#…}: for what is not in a long text, some shells take minutes.)
case $1$said in
permission*'"tool_name":"AskUserQuestion"'* | permission*'"details":{"type":"ask_user"'*) set -- question WAITING question ;;
esac
#include stamp.sh
# Messages that came while it was busy and begin the next turn at once, if its record of the conversation tells of them.
count_waiting() {
    [ -f "$path" ] || return
    awk '/"type":"queue-operation"/ {
        if (/"operation":"enqueue"/) n++; else if (/"operation":"popAll"/) n = 0; else n--
    } END { if (n > 0) print n }' "$path" 2>/dev/null
}
if [ -L events.jsonl ] || { [ -e events.jsonl ] && ! [ -f events.jsonl ]; }; then exit 0; fi
exec 9>>events.jsonl || exit 0
if command -v flock >/dev/null 2>&1; then flock 9; fi # a status and its row belong together
more= error= alone= was=
if [ -f status ]; then read -r was <status; fi
# A message that found nothing under way, and after which none came: when its turn ends, none can begin the next.
case $1$was in
message*'"message_at":'* | message*'"error":'*) ;;
message*'"state":"WAITING","reason":"end_of_turn",'*) alone=',"alone":true' ;;
message*) ;;
*'"alone":true'*) alone=',"alone":true' ;;
esac
is_near() { # whether two stamps are
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
    case $said in *'"error":"'*)
        error=${said#*\"error\":\"}
        more=",\"error\":\"${error%%\"*}\""
        ;;
    esac
    case ${error:+x}$said in x*'"last_assistant_message":"'*)
        text=${said#*\"last_assistant_message\":\"}
        text=${text%%[\"\\]*}
        [ ${#text} -gt 300 ] || more="$more,\"message\":\"$text\""
        ;;
    esac
    [ ${#more} -le 400 ] || more=
    row="{\"state\":\"$2\",\"reason\":\"$3\",\"at\":\"$at\"$more$alone}"
    if [ -w . ]; then
        printf '%s\n' "$row" >"status.$$" && mv -f "status.$$" status
    elif [ -f status ]; then # in a sandbox only its contents can be changed; what a longer one leaves is behind the line's end
        printf '%s\n' "$row" 1<>status
    fi
fi
if [ "$1" != message ] && [ ${#said} -gt 4000 ]; then said={}; fi
row() {
    printf '{"v":1,"at":"%s","agent":"%s","type":"%s","source":"hook","data":%s}\n' "$at" "${PWD##*/}" "$1" "$said"
}
if [ ${#said} -le 4000 ]; then
    row "$1" >&9
else # in one piece, for others write here too
    long=$(mktemp) && row "$1" >"$long" && cat "$long" >&9
    rm -f "$long"
fi
exit 0
