# Sets `at` to the current time in mngr's timestamp format.
at=$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)
case $at in *.[0-9][0-9][0-9]Z) ;; *) at=${at%.*}.000Z ;; esac # not every date supports fractions of a second
