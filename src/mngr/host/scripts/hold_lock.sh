# hold_lock.sh PATH SECONDS: holds a lock until the input ends, also because the connection is lost.
# Prints one line: locked, busy (another process held the lock for SECONDS), or failed WHY.
#include short_sleep.sh
#include take_lock.sh
umask 077
take_lock "$1" "$2"
case $? in
0) echo locked ;;
1) echo busy && exit ;;
*) echo "failed cannot write $1" && exit ;;
esac
while read -r _; do :; done
exit 0
