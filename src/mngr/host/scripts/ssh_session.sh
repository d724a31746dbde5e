# ssh_session.sh COMMAND: runs an ssh session's request in an agent's work dir: a shell, the sftp server, or a command.
case $1 in
'') exec "${SHELL:-sh}" ;;
sftp-server)
    for place in /usr/lib/openssh /usr/libexec/openssh /usr/lib/ssh /usr/libexec /usr/local/libexec; do
        [ ! -x "$place/sftp-server" ] || exec "$place/sftp-server"
    done
    echo "mngr: this host has no sftp-server; install it: apt-get install openssh-sftp-server" >&2
    exit 127
    ;;
esac
exec "${SHELL:-sh}" -c "$1"
