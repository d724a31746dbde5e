"""Repositories that run programs wherever git allows it. Each program leaves a file with the name of its trap."""

from __future__ import annotations

from pathlib import Path

from mngr.testkit.contract.mngr_program import run_git

HOOKS = (
    "applypatch-msg commit-msg fsmonitor-watchman post-applypatch post-checkout post-commit post-index-change post-merge post-receive "
    "post-rewrite post-update pre-applypatch pre-auto-gc pre-commit pre-merge-commit prepare-commit-msg pre-push pre-rebase pre-receive "
    "proc-receive push-to-checkout reference-transaction sendemail-validate update"
).split()
# The value of each setting that makes git run a command.
COMMANDS = {
    "core.fsmonitor": "touch {proof}/fsmonitor; false",
    "core.sshCommand": "touch {proof}/ssh; false",
    "core.alternateRefsCommand": "touch {proof}/alternate-refs; true",
    "core.pager": "touch {proof}/pager; cat",
    "core.editor": "touch {proof}/editor; true",
    "core.askPass": "{proof}/bin/askpass",
    "core.gitProxy": "{proof}/bin/proxy",
    "sequence.editor": "touch {proof}/sequence; true",
    "filter.evil.clean": "touch {proof}/clean; cat",
    "filter.evil.smudge": "touch {proof}/smudge; cat",
    "filter.two.process": "touch {proof}/process; false",
    "filter.two.required": "true",
    "filter.o d=d'.clean": "touch {proof}/odd; cat",
    "diff.evil.textconv": "touch {proof}/textconv; cat",
    "diff.evil.command": "touch {proof}/diff-command; true",
    "diff.external": "touch {proof}/external; true",
    "merge.evil.driver": "touch {proof}/driver; false",
    "mergetool.evil.cmd": "touch {proof}/mergetool; true",
    "uploadpack.packObjectsHook": "touch {proof}/pack-objects; exec",
    "gpg.program": "{proof}/bin/gpg",
    "gpg.ssh.program": "{proof}/bin/gpg-ssh",
    "commit.gpgSign": "true",
    "log.showSignature": "true",
    "merge.verifySignatures": "false",
    "credential.helper": "!touch {proof}/credential; true",
    "protocol.ext.allow": "always",
    "protocol.file.allow": "always",
    "url.ext::sh -c touch% {proof}/url% .insteadOf": "/",
    "remote.evil.url": "ext::sh -c touch% {proof}/promisor",
    "remote.evil.promisor": "true",
    "hook.evil.command": "touch {proof}/config-hook",
    "hook.evil.event": "reference-transaction",
    "trailer.x.command": "touch {proof}/trailer",
    "status.submoduleSummary": "true",
    "submodule.recurse": "true",
    "gc.auto": "1",
    "receive.autogc": "true",
    "alias.status": "!touch {proof}/alias",
    "alias.upload-pack": "!touch {proof}/alias",
}
PROGRAMS = ("askpass", "proxy", "gpg", "gpg-ssh")


def lay(work: Path, proof: Path) -> None:
    """Set every trap in a repository. A trap that runs leaves a file in the directory `proof`."""
    (proof / "bin").mkdir(parents=True)
    (work / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n*.two filter=two\n")
    for name in PROGRAMS:
        _program(proof / "bin" / name, proof / name)
    config_file = work / ".git" / "more"
    for hooks_dir in (".git/hooks", ".git/traps"):
        (work / hooks_dir).mkdir(exist_ok=True)
        for hook in HOOKS:
            _program(work / hooks_dir / hook, proof / hook)
    run_git(work, "config", "core.hooksPath", ".git/traps")
    run_git(work, "config", "include.path", str(config_file))
    for key, value in COMMANDS.items():
        run_git(work, "config", "--file", str(config_file), key, value.format(proof=proof))


def sprung(proof: Path) -> list[str]:
    """Return the names of the traps that ran."""
    return sorted(path.name for path in proof.iterdir() if path.name != "bin")


def _program(path: Path, proof: Path) -> None:
    path.write_text(f"#!/bin/sh\ntouch {proof}\nexit 1\n")
    path.chmod(0o755)
