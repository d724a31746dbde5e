# `at` is the time as our stamps have it.
at=$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)
case $at in *.[0-9][0-9][0-9]Z) ;; *) at=${at%.*}.000Z ;; esac # not every date knows parts of a second
