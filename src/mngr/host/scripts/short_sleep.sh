# nap MILLISECONDS: sleeps for less than a second, or for a second if sleep supports no fractions. `napped` is the sum.
# rest LEAST MOST: the same, but longer each time until `rested` is set to 0. Frequent checks are expensive when many
# agents start at once.
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
