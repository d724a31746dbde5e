# leave.sh HOME ID NAME WORK: take an agent away whose state is saved elsewhere. WORK may be empty; each step may be repeated.
# `saved` comes first, and then the agent's directory goes last and in one step: until then it can be seen what is under way.
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
