# codex_hook.sh TYPE STATE [REASON] <JSON: hook.sh for Codex, which also keeps apart what belongs to the agent's own conversations.
# They are linked in own/, for among Codex's records are those of sub-agents too; of these own/ has what they cost.
said=$(cat)
file_of() { # KEY
    file=${said#*"\"$1\":\""}
    file=${file%%\"*}
}
{
    case $1 in
    message)
        file_of transcript_path
        ln -f "$file" "$CODEX_HOME/last" # for codex.sh
        ln -f "$file" "$CODEX_HOME/own/"
        ;;
    tool_*) # a sub-agent may go on when the turn is over
        case $said in *'"agent_id":"'*) set -- "$1" - ;; esac
        ;;
    helper)
        file_of agent_transcript_path
        own=$CODEX_HOME/own/helper-${file##*/}
        touch "$own"
        grep -e '"type":"token_usage_record"' -e '"type":"turn_context"' "$file" | tail -n +$(($(wc -l <"$own") + 1)) >>"$own"
        ;;
    esac
} >/dev/null 2>&1
printf '%s\n' "$said" | sh "$MNGR_AGENT_DIR/hook.sh" "$@"
