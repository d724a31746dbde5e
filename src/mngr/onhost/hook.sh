# hook.sh TYPE STATE [REASON] <JSON: what a program tells of itself, as its status and as a row of the agent's events.
# STATE - leaves the status alone. It says nothing and never fails, for the program listens and waits. Of a `message` all is
# kept, for that proves a delivery; of the rest what is small.
umask 077
said=$(cat)
case $said in '{'*'}') ;; *) said={} ;; esac
cd "$MNGR_AGENT_DIR" 2>/dev/null || exit 0
at=$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)
case $at in *.[0-9][0-9][0-9]Z) ;; *) at=${at%.*}.000Z ;; esac # not every date knows parts of a second
if [ "$2" != - ]; then
    error=
    case $said in *'"error":"'*)
        error=${said#*\"error\":\"}
        error=",\"error\":\"${error%%\"*}\""
        ;;
    esac
    case $error$said in ,*'"last_assistant_message":"'*)
        text=${said#*\"last_assistant_message\":\"}
        text=${text%%[\"\\]*}
        [ ${#text} -gt 300 ] || error="$error,\"message\":\"$text\""
        ;;
    esac
    [ ${#error} -le 400 ] || error=
    row="{\"state\":\"$2\",\"reason\":\"$3\",\"at\":\"$at\"$error}"
    if [ -w . ]; then
        printf '%s\n' "$row" >"status.$$" && mv -f "status.$$" status
    elif [ -f status ]; then # in a sandbox only its contents can be changed; what a longer one leaves is behind the line's end
        printf '%s\n' "$row" 1<>status
    fi
fi
if [ "$1" != message ] && [ ${#said} -gt 4000 ]; then said={}; fi
if [ -L events.jsonl ] || { [ -e events.jsonl ] && ! [ -f events.jsonl ]; }; then exit 0; fi
row() {
    printf '{"v":1,"at":"%s","agent":"%s","type":"%s","source":"hook","data":%s}\n' "$at" "${PWD##*/}" "$1" "$said"
}
if [ ${#said} -le 4000 ]; then
    row "$1" >>events.jsonl
else # in one piece, for others write here too
    long=$(mktemp) && row "$1" >"$long" && cat "$long" >>events.jsonl
    rm -f "$long"
fi
exit 0
