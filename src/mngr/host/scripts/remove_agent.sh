# remove_agent.sh HOME ID NAME WORK: removes an agent whose state is saved elsewhere. WORK may be empty. Each step can be
# repeated. The file `saved` is created first and the agent's directory is removed last, in one step. Until then,
# `saved` shows that a removal is in progress.
cd "$1" || exit 4
id=$2 name=$3 work=$4
drop() {
    rm -rf -- "$1" 2>/dev/null || { chmod -R u+rwX -- "$1" && rm -rf -- "$1"; }
}
[ ! -d "agents/$id" ] || : >"agents/$id/saved" || exit
[ -z "$work" ] || drop "work/$work" || exit
[ -z "$name" ] || [ "$(readlink "names/$name")" != "$id" ] || rm -f "names/$name"
[ ! -d "agents/$id" ] || { drop "agents/$id.gone" && mv "agents/$id" "agents/$id.gone"; } || exit
drop "agents/$id.gone"
