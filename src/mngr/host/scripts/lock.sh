# lock.sh PATH SECONDS: hold a lock until the input ends, be it because the connection is lost.
# Answers one line: locked, busy (others held it for so long), or failed WHY.
#include nap.sh
#include locking.sh
umask 077
take_lock "$1" "$2"
case $? in
0) echo locked ;;
1) echo busy && exit ;;
*) echo "failed cannot write $1" && exit ;;
esac
while read -r _; do :; done
exit 0
