# send_message.sh SOCKET DIR TIMEOUT READY PAUSE MARK SHOWN CLEAR EMPTY [KEY [BOX [DIALOG [PROMPT]]]] <TEXT: types a message
# into the agent's terminal and waits for the proof that it arrived. With KEY, only this key is pressed, once one of
# the texts in SHOWN is on the screen. With BOX nothing is typed; instead a file `….message` or `….KEY` is created in
# this directory. Prints one line: sent (no proof is available), proven, unproven, not-ready, not-running, busy (the
# lock), or failed WHY.
socket=$1 dir=$2 timeout=$3 ready=$4 pause=$5 mark=$6 shown=$7 clear=$8 empty=$9 key=${10} box=${11} dialog=${12} prompt=${13}
id=${dir##*/}
cd "$dir" 2>/dev/null || {
    echo not-running
    exit 0
}
deadline= asked=0
late() { # true after the deadline; reads the clock only at every tenth call
    [ -z "$deadline" ] || [ $((asked += 1)) -ge 10 ] || return 1
    asked=0 now=$(date +%s)
    [ -n "$deadline" ] || deadline=$((now + timeout + 1)) # whole seconds: never early
    [ "$now" -ge "$deadline" ]
}
answer() {
    echo "$*"
    exit 0
}

#include short_sleep.sh
#include take_lock.sh
umask 077
take_lock ./send.lock "$timeout"
case $? in
1) answer busy ;;
2) answer failed "cannot write $dir/send.lock" ;;
esac

ended() { [ -e exit ] || [ -e stopped ]; }
find_pane() {
    tmux -S "$socket" list-panes -a -F '#{@mngr_id} #{@mngr_role} #{pane_dead} #{pane_id}' 2>/dev/null 9>&- </dev/null |
        while read -r whose role dead pane; do
            if [ "$whose $role $dead" = "$id agent 0" ]; then echo "$pane" && break; fi
        done
}
# If someone scrolls back (tmux's copy mode), tmux would interpret the keys itself and split a text into lines.
press() { tmux -S "$socket" if-shell -F -t "$pane" '#{pane_in_mode}' "copy-mode -q -t $pane" \; send-keys -t "$pane" "$@" 2>&1 9>&-; }
# Closes a dialog in which the program asks whether to continue after a failure, so that it can take the message.
close_dialog() {
    pane=$(find_pane)
    closes=$(tmux -u -S "$socket" capture-pane -p -t "$pane" 2>/dev/null 9>&- | sed -n "s/$dialog/\\1/p" | tail -n 1)
    [ -z "$closes" ] || press "$closes" >/dev/null
}
look=0
is_ready() {
    for name in $ready; do
        [ -s "$name" ] || return 1
    done
}
until is_ready; do
    ended && answer not-running
    late && answer not-ready
    if [ -n "$dialog" ] && [ $napped -ge $look ]; then
        close_dialog
        look=$((napped + 1000))
    fi
    rest 10 50
done
pane=$(find_pane)
[ -n "$pane" ] || answer not-running

size=0
[ ! -f events.jsonl ] || size=$(($(wc -c 2>/dev/null <events.jsonl)))
buffer=mngr-send-$id
# Prints the typed text: the lines at the cursor or, with PROMPT, from the last line that begins with it.
cursor_lines() {
    if [ -n "$prompt" ]; then
        tmux -u -S "$socket" capture-pane -p -J -t "$pane" 2>/dev/null 9>&- | awk -v prompt="$prompt" -v more="$1" \
            '$(0) ~ prompt { n = 0; found = 1 } found { line[n++] = $(0) } END { for (i = 0; i < n && (more || !i); i++) print line[i] }'
        return
    fi
    row=$(tmux -S "$socket" display-message -p -t "$pane" '#{cursor_y}' 2>/dev/null 9>&-) || return 1
    tmux -u -S "$socket" capture-pane -p -J -t "$pane" -S $((row >= $1 ? row - $1 : 0)) -E "$row" 2>/dev/null 9>&-
}
# A paste into a pane whose program has ended crashes the server (tmux 3.3), so tmux checks this in the same command.
paste() {
    tmux -u -S "$socket" load-buffer -b "$buffer" - \; if-shell -F -t "$pane" '#{pane_in_mode}' "copy-mode -q -t $pane" \; \
        if-shell -F -t "$pane" '#{pane_dead}' \
        "delete-buffer -b $buffer ; display-message -p mngr:dead" "paste-buffer -p -d -b $buffer -t $pane $1" 2>&1 9>&-
}
has_text() { ! cursor_lines 0 | sed 's/ *$//' | grep -qxF -e "$empty"; }
sign=${empty#"${empty%%[! ]*}"} # the first word of an empty input box
sign=${sign%%[
 ]*}
has_box() { tmux -u -S "$socket" capture-pane -p -t "$pane" 2>/dev/null 9>&- | sed 's/^ *//; s/ .*//' | grep -qF -e "$sign"; }
asks() { tmux -u -S "$socket" capture-pane -p -t "$pane" 2>/dev/null 9>&- | grep -qF -e "$shown"; }
if [ -n "$key" ] && [ -n "$shown" ]; then
    # Some programs do not ask while there is text in the input box. A key before the question would become such text.
    until asks; do
        late && answer not-ready
        if [ -n "$clear" ] && [ $napped -ge 400 ] && has_text; then
            press -N 5 "${clear%% *}" >/dev/null
        fi
        nap 50
    done
elif [ -n "$clear" ] && [ -z "$key" ]; then
    tries=0 # a few equal keys at a time: many or different keys would look like a paste
    while has_text && [ $tries -lt 60 ]; do
        tries=$((tries + 1))
        if [ $((tries % 10)) -eq 0 ] && cursor_lines 0 | grep -q "^ *$sign."; then
            press "${clear##* }" >/dev/null # the text stays, so the cursor may be before it
            nap 200
        elif has_box; then # earlier keys would become text in the box
            press -N 5 "${clear%% *}" >/dev/null
        fi
        nap 40
    done
fi
letter=
if [ -n "$box" ]; then
    # The agent can put links into the box, so the file is written beside the box and gets a name that nobody can guess.
    draft=$(mktemp ./letter.XXXXXXXXXX)
    letter=$box/$(date +%s).$$.${draft##*.}.${key:-message}
    output=$({ cat >"$draft" && mv "$draft" "$letter"; } 2>&1)
elif [ -n "$key" ]; then
    output=$(press "$key")
elif [ "$pause" = 0 ]; then
    output=$(paste "; send-keys -t $pane Enter")
else
    output=$(paste) && { sleep "$pause" 2>/dev/null || sleep 1; } && [ "$output" != mngr:dead ] && output=$(press Enter)
fi || [ "$output" = mngr:dead ] || answer failed "$output"
[ "$output" != mngr:dead ] || answer not-running
if [ -f limit ] && ! [ -L input ] && { [ -f input ] || ! [ -e input ]; }; then date +%s >input; fi # for watch.sh
[ -n "$mark" ] || answer sent

# True when the text is still in the input box because Enter was lost.
waits_for_enter() { [ -n "$shown" ] && cursor_lines 1 | grep -qF -e "$shown"; }
proven() { [ -f events.jsonl ] && tail -c +$((size + 1)) events.jsonl 2>/dev/null | grep -qF -e "$mark"; }
# Either the program takes the file, or this script removes it after waiting. Only one of them succeeds.
take_back() { [ -n "$letter" ] && rm "$letter" 2>/dev/null; }
napped=0 rested=0 look=400
nap 5
until proven; do
    if ended; then
        proven && break
        take_back
        answer not-running
    fi
    if late; then
        take_back && answer not-ready
        answer unproven
    fi
    if [ $napped -ge $look ] && waits_for_enter; then
        press Enter >/dev/null
    fi
    [ $napped -lt $look ] || look=$((napped + 1000))
    rest 5 40
done
echo proven
