# find_boot: sets `boot` to an id that changes with every boot, or to nothing where the system has none.
find_boot() {
    { read -r boot </proc/sys/kernel/random/boot_id; } 2>/dev/null || boot=$(sysctl -n kern.boottime 2>/dev/null | tr -dc 0-9)
}
