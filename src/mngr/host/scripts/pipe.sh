# pipe.sh PLACE key: prints the public host key in the directory PLACE, and creates the key if it is missing.
# pipe.sh PLACE serve CLIENT KEY WORD…: serves one ssh connection on these streams. It runs sshd with the WORDs and
# accepts the public key KEY, which it stores in PLACE/CLIENT. Exit codes before any byte is sent: 3 there is no sshd,
# 4 this user has no name, 5 sshd does not work here, 6 PLACE cannot be written, 9 the host key is missing.
place=$1 mode=$2
shift 2
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
sshd=$(command -v sshd) && command -v ssh-keygen >/dev/null || exit 3
user=$(id -un 2>/dev/null) || exit 4

# As root, sshd needs its privilege separation directory. It is missing after a boot if no ssh server was started.
try() {
    output=$("$sshd" -t -f /dev/null -h "$place/host_key" 2>&1 </dev/null) && return
    output=${output%"$(printf '\r')"}
    dir=${output##*privilege separation directory: }
    [ "$dir" != "$output" ] && mkdir -p -m 755 "$dir" 2>/dev/null && return
    printf '%s\n' "$output" >&2
    exit 5
}
make_key() { # the first of several processes wins
    umask 077
    new=$place/new.$$
    mkdir -p "$place" && ssh-keygen -q -t ed25519 -N '' -C mngr -f "$new" </dev/null >/dev/null || return
    ln "$new" "$place/host_key" 2>/dev/null || [ -s "$place/host_key" ] || mv "$new" "$place/host_key"
    rm -f "$new" "$new.pub"
}
if [ "$mode" = key ]; then
    [ -s "$place/host_key" ] || (make_key) || exit 6
    try
    exec ssh-keygen -y -f "$place/host_key"
fi

client=$1 key=$2
shift 2
[ -s "$place/host_key" ] || exit 9
if [ -d /run/sshd ] || [ "$(id -u)" != 0 ]; then :; else try; fi
had=
{ read -r had <"$place/$client"; } 2>/dev/null
if [ "$had" != "$key" ]; then
    (umask 077 && printf '%s\n' "$key" >"$place/$client.$$" && mv -f "$place/$client.$$" "$place/$client") || exit 6
fi
# Without PAM, sshd treats an account without a password as locked.
pam=no
while IFS=: read -r name password _; do
    case $name:$password in "$user:!"*) pam=yes ;; esac
done 2>/dev/null </etc/shadow
[ $pam = no ] || set -- "$@" -o UsePAM=yes
exec "$sshd" -i -e -f /dev/null -h "$place/host_key" -o "AllowUsers=$user" "$@"
