# create_user.sh NAME NUMBER HOME HALT AUTHOR EMAIL: runs once as root in a new container. It creates a user with the id
# NUMBER and the home HOME, and sets the git author. HALT is the file that the watcher creates when all is idle. The
# script only needs the capability CHOWN. If the image has a user with this id, only the home changes.
name=$1 number=$2 home=$3 author=$5 email=$6
umask 022
set -e
echo "$4" >/etc/mngr-halt
is_new= # root without capabilities cannot read a home of another user
if [ -O "$home" ] && [ ! -e "$home/.mngr" ]; then is_new=1; fi
escape() { # sets `text` to $1, escaped for a quoted value in git's settings
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
