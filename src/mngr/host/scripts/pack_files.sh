# pack_files.sh DIR NAME...: writes files of a directory as a tar stream. The end of the stream does not show whether tar
# succeeded, so its exit code follows on standard error.
(
    [ -d "$1" ] && [ ! -L "$1" ] && cd -- "$1" || exit 3
    shift
    for name; do
        [ -e "$name" ] || [ -L "$name" ] || exit 4
    done
    exec tar -cf - -- "$@"
)
printf '\nmngr ended %s' $? >&2
