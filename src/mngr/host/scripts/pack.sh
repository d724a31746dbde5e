# Files of a directory as a tar stream: DIR NAME... The end of a stream says nothing about tar, so we say how it ended.
(
    [ -d "$1" ] && [ ! -L "$1" ] && cd -- "$1" || exit 3
    shift
    for name; do
        [ -e "$name" ] || [ -L "$name" ] || exit 4
    done
    exec tar -cf - -- "$@"
)
printf '\nmngr ended %s' $? >&2
