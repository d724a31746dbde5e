# codex_hook.sh TYPE STATE [REASON] <JSON: run hook.sh for Codex, and separate the agent's own conversations from its sub-agents'.
# The directory own/ links the agent's own records. Of the sub-agents' records it holds only the usage rows.
input=$(cat)
file_of() { # KEY
    file=${input#*"\"$1\":\""}
    file=${file%%\"*}
}
{
    case $1 in
    message)
        file_of transcript_path
        ln -f "$file" "$CODEX_HOME/last" # for codex.sh
        ln -f "$file" "$CODEX_HOME/own/"
        ;;
    tool_*) # a sub-agent may continue after the turn has ended, so its tools do not change the state
        case $input in *'"agent_id":"'*) set -- "$1" - ;; esac
        ;;
    helper)
        file_of agent_transcript_path
        own=$CODEX_HOME/own/helper-${file##*/}
        touch "$own"
        grep -e '"type":"token_usage_record"' -e '"type":"turn_context"' "$file" | tail -n +$(($(wc -l <"$own") + 1)) >>"$own"
        ;;
    esac
} >/dev/null 2>&1
printf '%s\n' "$input" | sh "$MNGR_AGENT_DIR/hook.sh" "$@"
