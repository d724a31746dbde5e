# nap MILLISECONDS: sleep for less than a second; for a whole one where sleep knows no fractions. `napped` adds them up.
napped=0
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
