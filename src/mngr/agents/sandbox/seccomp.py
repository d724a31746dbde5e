"""The seccomp filter that forbids some system calls in a sandbox."""

from __future__ import annotations

import struct
from collections.abc import Iterable

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
# Offsets in `struct seccomp_data`. All machines in the table are little-endian, so an int is in the first half.
_SYSCALL_OFFSET, _ARCH_OFFSET, _FIRST_ARGUMENT_OFFSET, _SECOND_ARGUMENT_OFFSET = 0, 4, 16, 24
_ALLOW, _EPERM, _ENOSYS, _EAFNOSUPPORT = 0x7FFF0000, 0x00050001, 0x00050026, 0x00050061
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_X32 = 0x40000000  # An unused second set of system call numbers on x86-64 starts here.
_IO_URING_SETUP = 425  # on all machines; through it a program can create sockets without a system call
# AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK. A network namespace does not confine all others, for example AF_VSOCK.
_SOCKET_FAMILIES = (1, 2, 10, 16)

# Each row has the kernel's id of the machine, the number of ioctl, the first of add_key, request_key and keyctl, then
# socket and socketpair. i386 can also create sockets through socketcall, whose arguments a filter cannot see.
_ARCHITECTURES: tuple[tuple[int, int, int, tuple[int, int], tuple[int, ...]], ...] = (
    (0xC000003E, 16, 248, (41, 53), ()),  # x86-64
    (0x40000003, 54, 286, (359, 360), (102,)),  # i386
    (0xC00000B7, 29, 217, (198, 199), ()),  # aarch64
    (0x40000028, 54, 309, (281, 288), ()),  # arm
    (0xC00000F3, 29, 217, (198, 199), ()),  # riscv64
)


def build_filter() -> bytes:
    """Return a filter for the system calls that reach beyond the namespaces of a sandbox.

    It forbids typing into terminals, reading kernel keys and sockets of unusual families. On a machine that is not in
    the table, it forbids all system calls.
    """
    code = [(_LOAD, 0, 0, _ARCH_OFFSET)]
    for arch, ioctl, keys, sockets, socketcalls in _ARCHITECTURES:
        family_check = [
            (_LOAD, 0, 0, _FIRST_ARGUMENT_OFFSET),
            *_return_if_equal(_SOCKET_FAMILIES, _ALLOW),
            (_RETURN, 0, 0, _EAFNOSUPPORT),
        ]
        ioctl_check = [
            (_LOAD, 0, 0, _SECOND_ARGUMENT_OFFSET),
            *_return_if_equal((_TIOCSTI, _TIOCLINUX), _EPERM),
            (_RETURN, 0, 0, _ALLOW),
        ]
        checks = [
            (_LOAD, 0, 0, _SYSCALL_OFFSET),
            (_AT_LEAST, 0, 1, _X32),
            (_RETURN, 0, 0, _EPERM),
            *_return_if_equal(range(keys, keys + 3), _EPERM),
            *_return_if_equal((_IO_URING_SETUP,), _ENOSYS),
            *_return_if_equal(socketcalls, _EAFNOSUPPORT),
            (_EQUAL, 0, len(ioctl_check), ioctl),
            *ioctl_check,
            (_EQUAL, 1, 0, sockets[0]),
            (_EQUAL, 0, len(family_check), sockets[1]),
            *family_check,
            (_RETURN, 0, 0, _ALLOW),
        ]
        code += [(_EQUAL, 0, len(checks), arch), *checks]  # otherwise jump to the next machine
    code.append((_RETURN, 0, 0, _ENOSYS))
    return b"".join(struct.pack("=HBBI", *step) for step in code)


def _return_if_equal(values: Iterable[int], answer: int) -> list[tuple[int, int, int, int]]:
    """Return the steps that end the filter with an answer when the loaded number is one of the values."""
    return [step for value in values for step in ((_EQUAL, 0, 1, value), (_RETURN, 0, 0, answer))]
