# session.sh: the session of the animated picture. scripts/pictures.sh runs it in a terminal that asciinema records.
set -eu

# Show a command as a person types it, then run it.
run() {
    printf '\033[1;32m$\033[0m '
    printf '%s\n' "$1" | fold -w 6 | while IFS= read -r piece || [ -n "$piece" ]; do
        printf '%s' "$piece"
        sleep 0.09
    done
    sleep 0.4
    echo
    eval "$1"
    sleep "${2:-1.2}"
}

export ANTHROPIC_BASE_URL="$MODEL/s/fix" # MODEL is the address of the scripted model
run "mngr create fix claude --sandbox --yolo -m 'Make the tests pass.'"
export ANTHROPIC_BASE_URL="$MODEL/s/docs"
run "mngr create docs claude --sandbox --yolo -m 'Document every option.'"
run "mngr list --fields name,state,kind,branch" 2
run "mngr message fix -m 'Add a test for the empty cart.' --wait"
run "mngr diff fix --stat" 2
run "mngr pull fix --merge"
run "sh test.sh"
