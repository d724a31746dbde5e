"""What a sandboxed program may not ask of the kernel, as a program for the kernel (seccomp)."""

from __future__ import annotations

_LOAD, _EQUAL, _AT_LEAST, _ABOVE, _RETURN = 0x20, 0x15, 0x35, 0x25, 0x06
_SYSCALL_OFFSET, _ARCH_OFFSET, _SECOND_ARGUMENT_OFFSET = 0, 4, 24  # where `struct seccomp_data` has them
_ALLOW, _EPERM, _ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_X32 = 0x40000000  # a second set of numbers on x86-64, which nobody needs

# What the kernel calls the machine; the number of ioctl; the first of add_key, request_key, keyctl.
_ARCHITECTURES = (
    (0xC000003E, 16, 248),  # x86-64
    (0x40000003, 54, 286),  # i386
    (0xC00000B7, 29, 217),  # aarch64
    (0x40000028, 54, 309),  # arm
    (0xC00000F3, 29, 217),  # riscv64
)


def build_filter() -> bytes:
    """Nobody types into a terminal or asks for keys: a session's keys are open to all its processes.

    On a machine that is not in the table nothing works at all.
    """
    import struct

    code = [(_LOAD, 0, 0, _ARCH_OFFSET)]
    for arch, ioctl, keys in _ARCHITECTURES:
        code += [
            (_EQUAL, 0, 10, arch),  # else on to the next machine
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
