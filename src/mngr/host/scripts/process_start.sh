# process_start PID: print when the process started. Process ids are used again, so an id alone may name a stranger.
# It prints nothing where there is no /proc.
process_start() {
    if { read -r stat <"/proc/$1/stat"; } 2>/dev/null; then
        set -- ${stat##*) }
        echo "${20}"
    fi
}
