# unpack_files.sh ROOT TARGET NAME LAST as|in: unpacks the file or directory NAME from a tar stream to TARGET, or into
# TARGET if that is a directory; then it prints `in`. The files stay in a temporary directory until LAST, the last
# file of the stream, has arrived. A link must not lead out of ROOT. The end of the stream does not show whether the
# script succeeded, so its exit code follows on standard error.
(
    set -e
    root=$(cd -P -- "$1" && pwd) t=$2 b=$3 last=$4
    if [ "$5" = in ] || [ -d "$t" ]; then
        t=$t/$b
        echo in
    fi
    d=$(dirname -- "$t") p=$t
    until [ -d "$p" ]; do p=$(dirname -- "$p"); done
    case $(cd -P -- "$p" && pwd)/ in
    "$root"/*) ;;
    *)
        echo "a symbolic link in the target path leads out of the work dir" >&2
        exit 3
        ;;
    esac
    mkdir -p -- "$d"
    x=$(mktemp -d "$d/.mngr-XXXXXX")
    trap 'rm -rf "$x"' EXIT
    tar -C "$x" -xf -
    if [ ! -f "$x/$last" ]; then
        echo "the transfer was incomplete" >&2
        exit 3
    fi
    if [ ! -d "$t" ]; then
        mv -f -- "$x/$b" "$t"
    elif [ -d "$x/$b" ] && [ ! -L "$x/$b" ]; then
        (cd "$x/$b" && tar -cf - .) | tar -C "$t" -xpf -
    else
        echo "the target is a directory" >&2
        exit 3
    fi
)
printf '\nmngr ended %s' $? >&2
