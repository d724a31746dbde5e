# setup_cache.sh keep PLACE WORK <NAMES: saves the files that a set-up created in WORK; each name ends with NUL.
# setup_cache.sh reuse PLACE WORK: copies them to another work dir and replaces the old path in them. Exit code 3: none are
# saved.
what=$1 place=$2 work=$3
umask 077
set -e

# Overwrite the contents of the file, so that it keeps its mode.
rewrite() {
    if [ -w "$1" ]; then locked=; else locked=1; chmod u+w -- "$1"; fi
    sed -e "s|$old\\([^A-Za-z0-9_.-]\\)|$new\\1|g" -e "s|$old\$|$new|" <"$1" >"$place.text.$$"
    cat "$place.text.$$" >"$1"
    rm -f -- "$place.text.$$"
    if [ "$locked" ]; then chmod u-w -- "$1"; fi
}

if [ "$what" = keep ]; then
    # Delete saved files that were not used for a month.
    find "${place%/*}" -mindepth 1 -maxdepth 1 -mtime +30 -exec rm -rf -- {} + 2>/dev/null || :
    fresh=$place.$$
    mkdir -p -- "$fresh/files"
    printf '%s' "$work" >"$fresh/origin"
    cd -- "$work"
    to=$fresh/files xargs -0 -n 100 sh -c 'if [ $# -gt 0 ]; then tar -cf - -- "$@" | tar -C "$to" -xpf -; fi' keep
    mv -- "$fresh" "$place"
    exit
fi

[ -d "$place/files" ] || exit 3
touch -- "$place"
cp -RPp -- "$place/files/." "$work/"
origin=$(cat "$place/origin")
[ "$origin" != "$work" ] || exit 0
old=$(printf '%s' "$origin" | sed 's/[].*^$|\[]/\\&/g')
new=$(printf '%s' "$work" | sed 's/[&|\]/\\&/g')
cd -- "$place/files"
grep -rlF -e "$origin" . 2>/dev/null | while IFS= read -r name; do
    # Only text files: binary files may store the length of a path.
    if [ -f "$work/$name" ] && ! [ -L "$work/$name" ] && tr -d '\000' <"$name" | cmp -s - "$name"; then rewrite "$work/$name"; fi
done
find . -type l | while IFS= read -r name; do
    to=$(readlink "$name")
    case $to in
    "$origin" | "$origin"/*)
        rm -f -- "$work/$name"
        ln -s -- "$work${to#"$origin"}" "$work/$name"
        ;;
    esac
done
