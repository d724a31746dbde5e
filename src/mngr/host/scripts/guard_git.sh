# `guard WORK`: later git commands run no program that the agent's repository configures, and fetch nothing.
# Filters and merge drivers are disabled by name; those in the user's own settings stay in effect.

inert() {
    eval "GIT_CONFIG_KEY_$GIT_CONFIG_COUNT=\$1 GIT_CONFIG_VALUE_$GIT_CONFIG_COUNT=\$2"
    export "GIT_CONFIG_KEY_$GIT_CONFIG_COUNT" "GIT_CONFIG_VALUE_$GIT_CONFIG_COUNT"
    GIT_CONFIG_COUNT=$((GIT_CONFIG_COUNT + 1))
}

quiet() {
    GIT_CONFIG_COUNT=${GIT_CONFIG_COUNT:-0}
    inert core.hooksPath /dev/null
    inert core.fsmonitor false
    inert submodule.recurse false
    export GIT_CONFIG_COUNT
}

guard() {
    quiet
    for key in commit.gpgSign tag.gpgSign merge.verifySignatures log.showSignature maintenance.auto; do inert $key false; done
    for key in core.sshCommand core.editor gpg.program gpg.ssh.program gpg.x509.program; do inert $key false; done
    for key in protocol protocol.ext protocol.file protocol.git protocol.ssh protocol.http protocol.https; do
        inert $key.allow never
    done
    # These have precedence over all settings. A missing object is an error; the agent's remotes are never asked for it.
    GIT_ALLOW_PROTOCOL=none GIT_NO_LAZY_FETCH=1 GIT_PAGER=cat GIT_EDITOR=false GIT_ASKPASS=false
    export GIT_ALLOW_PROTOCOL GIT_NO_LAZY_FETCH GIT_PAGER GIT_EDITOR GIT_ASKPASS
    inert credential.helper ''
    inert core.alternateRefsCommand ''
    inert diff.ignoreSubmodules dirty # otherwise git runs in nested repositories, with their settings
    inert gc.auto 0
    while IFS= read -r row; do
        key=${row#*	}
        case $row in
        local*.driver | worktree*.driver) inert "$key" 'git merge-file --marker-size=%L %A %O %B' ;;
        local*.required | worktree*.required) inert "$key" false ;;
        local*.command | worktree*.command) inert "$key" true ;;
        local* | worktree*) inert "$key" '' ;;
        esac
    done <<END
$(git -C "$1" config --show-scope --name-only --get-regexp "^(filter\..*\.(clean|smudge|process|required)|merge\..*\.driver|hook\..*\.command)$")
END
}
