# user.sh NAME NUMBER HOME HALT AUTHOR EMAIL: once, as root in a new container: there is a user of that number, HOME is his,
# and his commits have an author; the watcher makes HALT when all is idle. Needs no capability but CHOWN; what the image says of that number stays, but for the home.
name=$1 number=$2 home=$3 author=$5 email=$6
umask 022
set -e
echo "$4" >/etc/mngr-halt
is_new= # root without capabilities sees nothing in a home that was given away
if [ -O "$home" ] && [ ! -e "$home/.mngr" ]; then is_new=1; fi
escape() { # into `text`, as git wants it between quotes
    text= left=$1
    while :; do
        case $left in *[\\\"]*) ;; *) break ;; esac
        text=$text${left%%[\\\"]*}
        left=${left#"${left%%[\\\"]*}"}
        text=$text\\${left%"${left#?}"} left=${left#?}
    done
    text=$text$left
}
if [ -n "$is_new" ] && [ -n "$author" ] && [ ! -e "$home/.gitconfig" ]; then
    escape "$author"
    author=$text
    escape "$email"
    printf '[user]\n\tname = "%s"\n\temail = "%s"\n' "$author" "$text" >"$home/.gitconfig"
fi
[ "$number" != 0 ] || exit 0
shell=/bin/sh
[ ! -x /bin/bash ] || shell=/bin/bash
passwd= group= found= taken=
while IFS=: read -r user word uid gid text place rest; do
    if [ "$uid" = "$number" ] && [ -z "$found" ]; then place=$home found=1; fi
    [ "$user" != "$name" ] || taken=1
    [ -z "$user" ] || passwd="$passwd$user:$word:$uid:$gid:$text:$place:$rest
"
done <<END
$(cat /etc/passwd 2>/dev/null)
END
[ -z "$taken" ] || name=$name-$number
[ -n "$found" ] || passwd="$passwd$name:x:$number:$number::$home:$shell
"
printf %s "$passwd" >/etc/passwd
while IFS=: read -r user word gid rest; do
    [ "$gid" != "$number" ] || group=1
done <<END
$(cat /etc/group 2>/dev/null)
END
[ -n "$group" ] || echo "$name:x:$number:" >>/etc/group
[ -n "$is_new" ] || exit 0
chmod 700 "$home"
chown -R "$number:$number" "$home"
