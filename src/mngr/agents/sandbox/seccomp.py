"""The seccomp filter that forbids some system calls in a sandbox."""

from __future__ import annotations

_LOAD, _EQUAL, _AT_LEAST, _ABOVE, _RETURN = 0x20, 0x15, 0x35, 0x25, 0x06
_SYSCALL_OFFSET, _ARCH_OFFSET, _SECOND_ARGUMENT_OFFSET = 0, 4, 24  # offsets in `struct seccomp_data`
_ALLOW, _EPERM, _ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_X32 = 0x40000000  # An unused second set of system call numbers on x86-64 starts here.

# Each row has the kernel's id of the machine, the number of ioctl, and the first of add_key, request_key and keyctl.
_ARCHITECTURES = (
    (0xC000003E, 16, 248),  # x86-64
    (0x40000003, 54, 286),  # i386
    (0xC00000B7, 29, 217),  # aarch64
    (0x40000028, 54, 309),  # arm
    (0xC00000F3, 29, 217),  # riscv64
)


def build_filter() -> bytes:
    """Return a filter that forbids typing into terminals and reading kernel keys, which a session's processes share.

    On a machine that is not in the table, the filter forbids all system calls.
    """
    import struct

    code = [(_LOAD, 0, 0, _ARCH_OFFSET)]
    for arch, ioctl, keys in _ARCHITECTURES:
        code += [
            (_EQUAL, 0, 10, arch),  # otherwise jump to the next machine
            (_LOAD, 0, 0, _SYSCALL_OFFSET),
            (_AT_LEAST, 7, 0, _X32),
            (_EQUAL, 2, 0, ioctl),
            (_AT_LEAST, 0, 4, keys),
            (_ABOVE, 3, 4, keys + 2),
            (_LOAD, 0, 0, _SECOND_ARGUMENT_OFFSET),
            (_EQUAL, 2, 0, _TIOCSTI),
            (_EQUAL, 1, 0, _TIOCLINUX),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _EPERM),
        ]
    code.append((_RETURN, 0, 0, _ENOSYS))
    return b"".join(struct.pack("=HBBI", *step) for step in code)
