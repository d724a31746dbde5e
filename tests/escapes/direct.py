"""Attempts that leave a mark by themselves, without any command of the user: files, processes and the network outside."""

from __future__ import annotations

import os

from tests.escapes.attempt import Attempt
from tests.support.landlock import HAS_SCOPES

# How the agents with another network are created.
ON = ("--sandbox", "--network", "on", "--", "sleep", "1000")
FEW = ("--sandbox", "--network", "allow=127.0.0.1:1", "--", "sleep", "1000")


def _python(program: str) -> str:
    """Return a shell program that runs this Python program with the variables of the attempt."""
    names = "MARK PRECIOUS TREASURE SECRET NEW STATE PORT ABSTRACT SOCKET VICTIM"
    return f"export {names}\npython3 - <<'END'\nimport ctypes, os, socket, sys\ne = os.environ\ncall = ctypes.CDLL(None, use_errno=True).syscall\nx86 = os.uname().machine == 'x86_64'\n{program}\nEND\n"


_FILES = [
    Attempt("a program writes a file of the user", 'echo x > "$PRECIOUS"; touch "$MARK"\n'),
    Attempt("a program deletes files of the user", 'rm -rf "$TREASURE"; rm -f "$PRECIOUS"; ls "$STATE/.." | grep -q outside || exit 1\n'),
    Attempt("a program reads a file of the user", 'cat "$SECRET"\n'),
    Attempt("a program finds a secret by searching all files", 'find / -xdev -path /proc -prune -o -name secret -type f -exec cat {} + 2>/dev/null; grep -rs secret- /tmp /home /root /run /var/tmp 2>/dev/null | head -3; find "$(dirname "$SECRET")" -type f -exec cat {} +\n'),
    Attempt("a program reads a secret through the root directory of a process", 'for p in /proc/[0-9]*; do cat "$p/root$SECRET" "$p/cwd/../../../../../../..$SECRET" 2>/dev/null || true; done\n'),
    Attempt("a program leaves through the directory above its root", _python("os.chdir('/')\nfor _ in range(20): os.chdir('..')\nprint(open(e['SECRET'][1:]).read())")),
    Attempt("a program leaves through a handle of a file", _python(
        "buffer = ctypes.create_string_buffer(bytes([128, 0, 0, 0]) + bytes(300))\n"
        "mount = ctypes.c_int()\ncall(303 if x86 else 264, -100, e['SECRET'].encode() if os.path.exists(e['SECRET']) else b'/', buffer, ctypes.byref(mount), 0)\n"
        "base = os.open(os.path.dirname(e['SECRET']) if os.path.exists(e['SECRET']) else '.', os.O_RDONLY)\n"
        "fd = call(304 if x86 else 265, base, buffer, 0)\nif fd >= 0: print('MARK', os.read(fd, 100) if os.path.exists(e['SECRET']) else 'opened')")),
    Attempt("a program finds an open directory of its starter", _python(
        "for name in os.listdir('/proc/self/fd'):\n"
        "    try: print(open(f'/proc/self/fd/{name}/../outside/secret').read())\n"
        "    except OSError: pass\n"
        "print(open(e['SECRET']).read())")),
    Attempt("a program changes the next start of the agent", 'echo "touch $MARK" >> "$MNGR_AGENT_DIR/env"; echo "touch $MARK" >> "$MNGR_AGENT_DIR/sandbox"; touch "$MARK"\n'),
    Attempt("a program changes a program that mngr or the user runs", 'for d in /usr/bin /usr/local/bin "$STATE/lib" "$(dirname "$(command -v python3)")"; do [ ! -w "$d" ] || echo "MARK $d"; done\n'),
]  # fmt: skip

_PROCESSES = [
    Attempt("a program ends a process of the user", 'kill -9 "$VICTIM"\n'),
    Attempt("a program reads the variables of a process of the user", 'tr "\\0" "\\n" < "/proc/$VICTIM/environ"\n'),
    Attempt("a program attaches to a process of the user", _python("print('MARK') if call(101 if x86 else 117, 16, int(e['VICTIM']), 0, 0) == 0 else None")),
    Attempt("a program reads the memory of a process of the user", _python("open(f\"/proc/{e['VICTIM']}/mem\", 'rb')\nprint('MARK')")),
    Attempt("a program opens the files of a process of the user by its number", _python("fd = call(434, int(e['VICTIM']), 0)\nprint('MARK') if fd >= 0 and call(438, fd, 0, 0) >= 0 else None")),
    Attempt("a program changes the priority of a process of the user", _python("os.setpriority(os.PRIO_PROCESS, int(e['VICTIM']), 5)\nprint('MARK')")),
    Attempt("a program reads shared memory of the user", 'tail -n +2 /proc/sysvipc/shm | sed "s/^/MARK /"\n'),
]  # fmt: skip

_NETWORK = [
    Attempt("a program connects to a server of this machine", _python("socket.create_connection(('127.0.0.1', int(e['PORT'])), 5)\nprint('MARK')")),
    Attempt("a program sends a datagram to a server of this machine", _python("socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'mark', ('127.0.0.1', int(e['PORT'])))")),
    Attempt("a program connects to a socket without a file", _python("s = socket.socket(socket.AF_UNIX); s.connect('\\0' + e['ABSTRACT'])\nprint('MARK')")),
    Attempt("a program sends a datagram to a socket without a file", _python("s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.sendto(b'mark', '\\0' + e['ABSTRACT'] + '-datagram')\nprint('MARK')")),
    Attempt("a program connects to a socket among the user's files", _python("s = socket.socket(socket.AF_UNIX); s.connect(e['SOCKET'])\nprint('MARK')")),
    Attempt("a program opens a socket to the machine's hypervisor", _python("socket.socket(socket.AF_VSOCK)\nprint('MARK')")),
    Attempt("a program opens a socket to the machine's hypervisor through a ring", _python(
        "import mmap, struct\nparams = ctypes.create_string_buffer(120)\nring = call(425, 4, params)\n"
        "assert ring >= 0\nvalues = struct.unpack('30I', params)\nsq, array = values[10:18], values[16]\n"
        "memory = mmap.mmap(ring, 4096)\nentries = mmap.mmap(ring, 4096, offset=0x10000000)\n"
        "entries[:64] = struct.pack('BBHiQQIiQ', 45, 0, 0, 40, 1, 0, 0, 0, 0).ljust(64, b'\\0')\n"
        "memory[array:array + 4] = struct.pack('I', 0)\ntail = values[11]\nmemory[tail:tail + 4] = struct.pack('I', 1)\n"
        "call(426, ring, 1, 1, 1, 0, 0)\ncqes = values[25]\nresult = struct.unpack('i', memory[cqes + 8:cqes + 12])[0]\n"
        "print('MARK' if result >= 0 else result)")),
    Attempt("a program listens to all packets of the machine", _python("socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300)\nprint('MARK')")),
    Attempt("a program asks the kernel for the routes of the machine", _python("lines = open('/proc/net/route').read().splitlines()[1:] + open('/proc/net/unix').read().splitlines()[1:]\nprint(*(f'MARK {line}' for line in lines), sep='\\n')")),
    Attempt("a program talks to the kernel about the machine's devices", _python("s = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 15); s.bind((0, 1))\nprint('MARK') if os.path.exists('/sys/class/net') else None")),
]  # fmt: skip

# The same promises of the kernel for which a real success would harm the machine that runs the tests: they have no proof.
_KERNEL = [
    Attempt("a program mounts a file system", "mount -t tmpfs none /mnt && echo MARK; mount --bind / /mnt && echo MARK; mount -o remount,rw / && echo MARK; true\n"),
    Attempt("a program makes its own namespaces", "for f in --user --mount --net --pid --ipc --uts --cgroup; do unshare $f -f true && echo MARK $f; done; true\n"),
    Attempt("a program creates a device", "mknod /tmp/disk b 254 0 && echo MARK; mknod mem c 1 1 && echo MARK; true\n"),
    Attempt("a program finds a device of the machine", "ls /dev | grep -vxE 'console|core|fd|full|null|ptmx|pts|random|shm|stderr|stdin|stdout|tty|urandom|zero' | sed 's/^/MARK /'; [ ! -e /sys/kernel ] || echo MARK\n"),
    Attempt("a program writes settings of the kernel", 'for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/sys/kernel/modprobe /proc/self/attr/current /proc/1/oom_score_adj; do [ ! -w $f ] || (: >> $f) 2>/dev/null && [ -w $f ] && case $f in /proc/1/*|*/attr/*) ;; *) echo MARK $f ;; esac; done; true\n'),
    Attempt("a program uses the keys of the kernel", _python("print(*(f'MARK {n}' for n in ((248, 249, 250) if x86 else (217, 218, 219)) if call(n, 0, 0, 0, 0, 0) >= 0 or ctypes.get_errno() != 1), sep='\\n')")),
    Attempt("a program uses the keys of the kernel through other system calls", _python("print('MARK') if x86 and call(0x40000000 + 250, 0, -3, 0) >= 0 else None")),
    Attempt("a program loads code into the kernel", _python("print(*(f'MARK {n}' for n, args in (((321, (0, 0, 0)), (175, (0, 0, 0)), (313, (-1, 0, 0)), (246, (0, 0, 0, 0))) if x86 else ((280, (0, 0, 0)), (105, (0, 0, 0)), (273, (-1, 0, 0)), (104, (0, 0, 0, 0)))) if call(n, *args) >= 0), sep='\\n')")),
    Attempt("a program sets the clock and the name of the machine", _python("import time\nfor setter in (lambda: time.clock_settime(0, time.clock_gettime(0)), lambda: socket.sethostname(socket.gethostname())):\n    try: setter(); print('MARK')\n    except OSError: pass")),
    Attempt("a program gets more rights by a set-uid program", "grep -q '^NoNewPrivs:.1' /proc/self/status || echo MARK; grep -E '^Cap(Prm|Eff|Bnd|Inh|Amb)' /proc/self/status | grep -v 0000000000000000 | sed 's/^/MARK /'; true\n"),
    Attempt("a program sees the processes of the machine", "[ \"$(ls -d /proc/[0-9]* | wc -l)\" -lt 12 ] || echo MARK\n"),
]  # fmt: skip

_OTHER_NAMES = """
for target in (
    "CONNECT 127.0.0.1:{0}", "CONNECT localhost:{0}", "CONNECT 0:{0}", "CONNECT 2130706433:{0}", "CONNECT [::ffff:127.0.0.1]:{0}",
    "CONNECT 127.1:{0}", "CONNECT 127.0.0.1:1@127.0.0.1:{0}", "CONNECT 127.0.0.1:1#:{0}", "CONNECT 127.0.0.1:1 127.0.0.1:{0}",
    "GET http://127.0.0.1:{0}/", "GET http://127.0.0.1:1@127.0.0.1:{0}/", "GET http://127.0.0.1:{0}#@127.0.0.1:1/",
    "GET http://127.0.0.1:{0}\\\\@127.0.0.1:1/", "CONNECT 127.0.0.1:{0}\\t127.0.0.1:1", "CONNECT 127.0.0.1\\0:{0}",
):
    with socket.create_connection(("127.0.0.1", 3128), 5) as proxy:
        proxy.sendall((target.format(e["PORT"]) + " HTTP/1.1\\r\\nHost: 127.0.0.1:" + e["PORT"] + "\\r\\n\\r\\n").encode())
        proxy.settimeout(5)
        answer = proxy.recv(100)
        if b" 200 " in answer: print("MARK", target)
"""


def _replace_options(attempts: list[Attempt], note: str, options: tuple[str, ...]) -> list[Attempt]:
    """Return the same attempts for an agent with another network."""
    return [Attempt(f"{attempt.name}, {note}", attempt.plant, options=options) for attempt in attempts]


_WITH_NETWORK = _replace_options(
    [a for a in _NETWORK if " socket " in a.name and (HAS_SCOPES or "without a file" not in a.name)],
    "with the network on",
    ON,
)
_WITH_PROXY = [
    *_replace_options(_NETWORK, "with one allowed address", FEW),
    Attempt("a program reaches another address through the proxy by an odd name", _python(_OTHER_NAMES), options=FEW),
]

# These leave a mark where there is no sandbox. Some of them do so only for root.
_FOR_ROOT = ("handle of a file", "attaches to", "memory of a process", "by its number", "all packets", "hypervisor")
REAL = [
    attempt
    for attempt in (*_FILES, *_PROCESSES, *_NETWORK)
    if os.getuid() == 0 or not any(words in attempt.name for words in _FOR_ROOT)
]
ATTEMPTS = [*_FILES, *_PROCESSES, *_NETWORK, *_KERNEL, *_WITH_NETWORK, *_WITH_PROXY]
