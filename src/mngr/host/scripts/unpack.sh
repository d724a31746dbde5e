# A file or directory from a tar stream: ROOT TARGET NAME LAST as|in. It is beside its place until LAST has come, which is the
# last of all, then goes there; or into TARGET where that is a directory, which is answered by `in`.
# A link must not lead out of ROOT. The end of a stream says nothing about what reads it, so we say how it ended.
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
        echo "a link there leads out of the work dir" >&2
        exit 3
        ;;
    esac
    mkdir -p -- "$d"
    x=$(mktemp -d "$d/.mngr-XXXXXX")
    trap 'rm -rf "$x"' EXIT
    tar -C "$x" -xf -
    if [ ! -f "$x/$last" ]; then
        echo "not all of it came" >&2
        exit 3
    fi
    if [ ! -d "$t" ]; then
        mv -f -- "$x/$b" "$t"
    elif [ -d "$x/$b" ] && [ ! -L "$x/$b" ]; then
        (cd "$x/$b" && tar -cf - .) | tar -C "$t" -xpf -
    else
        echo "there is a directory of that name" >&2
        exit 3
    fi
)
printf '\nmngr ended %s' $? >&2
