"""Closes the way from a sandbox with the machine's network to the abstract unix sockets of programs outside.

Such a socket has no file, so only the network namespace would hide it, and the sandbox shares that one. The scopes of
Landlock, since Linux 6.12, let the programs of a sandbox connect only to the abstract sockets that they created.
"""

from __future__ import annotations

# An empty set of rules with the scope LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET. The numbers of the system calls
# landlock_create_ruleset and landlock_restrict_self are the same on all machines. An older kernel refuses the first one.
# With -T, perl ignores variables that load code, and starts no program before the arguments are matched once.
_PERL = r"""
my $rules = pack("L6", 0, 0, 0, 0, 1, 0);
my $set = syscall(444, $rules, 24, 0);
if ($set >= 0 && syscall(446, $set, 0) != 0) { print STDERR "mngr: Landlock: $!\n"; exit 125 }
delete $ENV{PERL_BADLANG};
for (qw(PATH IFS CDPATH ENV BASH_ENV)) { ($ENV{$_}) = $ENV{$_} =~ /(.*)/s if defined $ENV{$_} }
my @words = map { /(.*)/s } @ARGV;
exec { $words[0] } @words or exit 127
"""
_PYTHON = r"""
import ctypes, os, struct, sys
call = ctypes.CDLL(None, use_errno=True).syscall
set_of_rules = call(444, struct.pack("=QQQ", 0, 0, 1), 24, 0)
if set_of_rules >= 0 and call(446, set_of_rules, 0):
    sys.exit(f"mngr: Landlock: {os.strerror(ctypes.get_errno())}")
os.execv(sys.argv[1], sys.argv[1:])
"""
# Starting perl takes 2 ms, and starting Python 10 ms. No agent can replace these programs.
_CHOOSE_PROGRAM = """
perl=$1 python=$2
shift 2
[ ! -x /usr/bin/perl ] || PERL_BADLANG=0 exec /usr/bin/perl -T -e "$perl" -- "$@"
[ ! -x /usr/bin/python3 ] || exec /usr/bin/python3 -I -S -c "$python" "$@"
exec "$@"
"""
WORDS = ("/bin/sh", "-c", _CHOOSE_PROGRAM, "scope", _PERL, _PYTHON)  # The path of a program and its arguments follow.
