# nap MILLISECONDS: sleep for less than a second; for a whole one where sleep knows no fractions. `napped` adds them up.
# rest LEAST MOST: the same, for longer each time until `rested` is 0 again: where much starts at once, looking costs the most.
napped=0 rested=0
rest() {
    rested=$((rested * 3 / 2))
    [ $rested -ge "$1" ] || rested=$1
    [ $rested -le "$2" ] || rested=$2
    nap $rested
}
nap() {
    case $1 in
    ?) sleep "0.00$1" ;;
    ??) sleep "0.0$1" ;;
    *) sleep "0.$1" ;;
    esac 2>/dev/null || {
        set -- 1000
        sleep 1
    }
    napped=$((napped + $1))
}
