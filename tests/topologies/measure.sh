#!/bin/sh
# Measures what docs/paths.md says, over the paths of this folder: Linux and root.
#
#   sh tests/topologies/measure.sh fill [PATH...]      how much of a path a reduce fills, with all defaults
#   sh tests/topologies/measure.sh cubic [PATH...]     the same with one lane and cubic, a smaller buffer
#   sh tests/topologies/measure.sh gloo PYTHON [PATH...]   the same with Gloo, of the torch of this Python
#   sh tests/topologies/measure.sh counter-example     the fastest slowest edge against the least sum
#   sh tests/topologies/measure.sh two-sites           a ring that crosses between two sites at each step
#   sh tests/topologies/measure.sh choice [COLLECTIVE] every algorithm beside the one that the master chooses
#   sh tests/topologies/measure.sh lanes               18 peers over the Atlantic: lanes, and reduces at once
#   sh tests/topologies/measure.sh levels              four sites of four hosts: two levels, with and without a ring of sites, and two rings
#   sh tests/topologies/measure.sh rings               18 peers over the Atlantic: a bad ring, a random and the best
#
# Each takes some minutes at most. A line at the end that packets were lost before the wire means that this machine is
# too slow for the figures to mean anything.
set -eu
cd "$(dirname "$0")/../.."

# Hosts of a topology in the order that a command makes of them, and options of the benchmark. The first host of the
# file launches the benchmark on all.
reduce() {
    topology=$1 first=$2 count=$3 order=$4
    shift 4
    target/release/wan --topology "tests/topologies/$topology.toml" --scale "${scale:-1}" --host "$first=target/release/all_reduce_perf \
        --hosts \$(echo \$WAN_HOSTS | tr ' ' '\\n' | $order | paste -sd ,) --launch \"\$WAN_LAUNCH\" \
        --peers $count --no-floor $*" -- true
}

build() {
    cargo build --release -p pccl-tests --bin wan -p pccl-bench --bin all_reduce_perf
}

# Every second one of the first half and of the second: 1, 5, 2, 6, 3, 7, 4, 8.
alternate="awk '{ line[NR] = \$0 } END { half = NR / 2; for (i = 1; i <= half; i++) print line[i] \"\\n\" line[i + half] }'"

# A host of Europe after each of the first six of America: twelve steps over the ocean, where two would do.
back_and_forth="awk '{ line[NR] = \$0 } END { for (i = 1; i <= 12; i++) { print line[i]; if (i <= 6) print line[i + 12] } }'"

# The same order each time, on the same system.
random="awk 'BEGIN { srand(1) } { print rand(), \$0 }' | sort -n | cut -d ' ' -f 2"

# The names of the sites of four-sites*.toml, for each host.
sites_of_four=--sites=$(for site in eu us asia sa; do printf "$site,$site,$site,$site,"; done | sed 's/,$//')

# 18 peers, without the long table of all paths.
transatlantic() {
    reduce transatlantic oregon-1 18 "$@" --warmup 0 | grep -v '^|'
}

# Rates that two cores carry: those of all but the slow one are 0.3 of what their files say.
scale_of() {
    case $1 in
    bad) echo 1 ;;
    *) echo 0.3 ;;
    esac
}

# One reduce after the other across the four hosts of each path.
across() {
    paths=$1
    shift
    for path in $paths; do
        echo "# $path, all rates times $(scale_of "$path")"
        scale=$(scale_of "$path") reduce "$path" a 4 cat "$@" | grep -v '^|'
    done
}

case ${1:-} in
fill)
    build
    shift
    across "${*:-metro continent ocean bad}" --min-bytes 64M --max-bytes 64M
    ;;
cubic)
    build
    shift
    across "${*:-ocean bad}" --min-bytes 2M --max-bytes 2M --lanes 1 --congestion cubic --warmup 1 --iters 3
    ;;
gloo)
    python=$2
    shift 2
    cargo build --release -p pccl-tests --bin wan
    for path in ${*:-metro continent ocean bad}; do
        echo "# $path, all rates times $(scale_of "$path")"
        meet=$(mktemp -u)
        # 64 MiB, in place, one reduce at a time, two to warm up, six that count. The interface of a host is the one
        # with its address.
        target/release/wan --topology "tests/topologies/$path.toml" --scale "$(scale_of "$path")" -- sh -c \
            "GLOO_SOCKET_IFNAME=\$(ip -o -4 addr | awk -v a=\"\$WAN_ADDRESS\" 'index(\$4, a \"/\") == 1 { print \$2 }') \
            $python bench/rivals/gloo_worker.py \$WAN_NUMBER \$WAN_COUNT $meet 67108864:1:1:2:6" | grep -v '^|'
        rm -f "$meet"
    done
    ;;
counter-example)
    build
    reduce counter-example a 4 cat --min-bytes 4M --max-bytes 4M --warmup 1 --iters 3 --optimize --algorithm ring --sites one
    ;;
two-sites)
    build
    reduce two-sites w1 8 "$alternate" --min-bytes 16M --max-bytes 16M --warmup 1 --iters 3 --optimize --algorithm ring --sites one
    ;;
choice)
    build
    few="--every-algorithm --warmup 1 --min-bytes 16K --max-bytes 4M --step-factor 16"
    for collective in ${2:-all-reduce reduce-scatter all-gather broadcast}; do
        # Before anything was measured, and after.
        across "metro ocean" $few --iters 8 --collective "$collective" --optimize
        echo "# four sites of four"
        reduce four-sites-own eu-1 16 cat "$sites_of_four" $few --iters 3 --collective "$collective" --max-mesh 16 |
            grep -v '^|'
    done
    ;;
levels)
    build
    of_sites() {
        echo "# $*"
        reduce four-sites-own eu-1 16 "$@" --step-factor 64 | grep -v '^|'
    }
    small="--min-bytes 64K --max-bytes 4M --iters 5"
    large="--min-bytes 64M --max-bytes 64M --iters 1 --warmup 1"
    of_sites cat "$sites_of_four $small --algorithm two-level"
    of_sites cat "$sites_of_four $small --algorithm two-level-ring"
    of_sites cat "--sites one $small"
    of_sites "$random" "--sites one $small"
    of_sites cat "$sites_of_four $large --algorithm two-level"
    of_sites cat "$sites_of_four $large --algorithm two-level-ring"
    of_sites cat "--sites one $large"
    ;;
lanes)
    build
    # The report's 64 MiB for each connection, with a two hundredth of its rates.
    for lanes in 1 8 32 64; do
        # One lane takes more, so that it does not travel as small buffers do.
        all=$((lanes * 320))K
        [ "$lanes" = 1 ] && all=1280K
        transatlantic cat --lanes $lanes --min-bytes $all --max-bytes $all --iters 3
    done
    # The same bytes as one reduce, as two that fill the lanes, and as many small ones.
    transatlantic cat --lanes 8 --min-bytes 8M --max-bytes 8M --iters 2
    transatlantic cat --lanes 8 --min-bytes 4M --max-bytes 4M --iters 2 --concurrent 2
    transatlantic cat --lanes 8 --min-bytes 320K --max-bytes 320K --iters 2 --concurrent 8
    ;;
rings)
    build
    size="--lanes ${2:-4} --min-bytes 2560K --max-bytes 2560K --iters 2"
    transatlantic "$back_and_forth" $size --optimize --algorithm ring --sites one
    transatlantic "$random" $size --optimize --algorithm ring --sites one
    ;;
*)
    sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "$0"
    exit 2
    ;;
esac
