# find_boot: `boot` changes with every boot of the machine; empty where that is not told.
find_boot() {
    { read -r boot </proc/sys/kernel/random/boot_id; } 2>/dev/null || boot=$(sysctl -n kern.boottime 2>/dev/null | tr -dc 0-9)
}
