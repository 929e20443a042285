#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# detshare-serve --bimodal with two packs that no compiler writes:
# - a kernel that is launched in so many ways that its forms need several images
# - a module too large to be coloured. The message must not blame a kernel, even if a kernel's name is a word of the
#   message.
#
# Prints `N passed, N failed` last.
#
# usage: tests/e2e/bimodal_packs.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(realpath "$1")
tmp=$(mktemp -d /tmp/detshare-bimodal.XXXXXX)
. tests/support/counted.sh
daemon=

# shellcheck disable=SC2317
finish() {
        [ -n "$daemon" ] && kill -KILL "$daemon" 2>/dev/null
        rm -rf "$tmp"
}
trap finish EXIT

serve() {
        DETSHARE_SOCKET=$tmp/sock timeout 300 "$build/detshare-serve" "$@"
}

# figure KEY: prints the value of KEY in the "bimodal" object of detshare-serve's JSON
figure() {
        sed -n "s/.*\"bimodal\": {[^}]*\"$1\": \([0-9]*\).*/\1/p" "$tmp/out"
}

digests() {
        grep -o '"sha256": "[^"]*"' "$1"
}

# file_line PACK NAME: prints the manifest's line for a file, with its size and checksum
file_line() {
        echo "file $2 $(stat -c %s "$1/$2") $(sha256sum "$1/$2" | cut -d ' ' -f 1)"
}

# many_ptx KERNEL: prints PTX. The eighth parameter points to 32 floats that become the sum of the arrays at the first
# seven parameters; null counts as zeros.
many_ptx() {
        local i
        printf '.version 7.0\n.target sm_60\n.address_size 64\n.visible .entry %s(' "$1"
        for i in 0 1 2 3 4 5 6; do printf '.param .u64 p%d, ' $i; done
        printf '.param .u64 p7)\n{\n.reg .b64 %%a<20>;\n.reg .f32 %%f<9>;\n.reg .b32 %%r<2>;\n.reg .pred %%p<8>;\n'
        printf 'mov.u32 %%r1, %%tid.x;\nmul.wide.u32 %%a10, %%r1, 4;\nmov.f32 %%f0, 0f00000000;\n'
        for i in 0 1 2 3 4 5 6; do
                printf 'ld.param.u64 %%a%d, [p%d];\nsetp.eq.u64 %%p%d, %%a%d, 0;\nadd.u64 %%a1%d, %%a%d, %%a10;\n' $i $i $i $i $((i + 1)) $i
                printf 'mov.f32 %%f1, 0f00000000;\n@!%%p%d ld.global.f32 %%f1, [%%a1%d];\nadd.f32 %%f0, %%f0, %%f1;\n' $i $((i + 1))
        done
        printf 'ld.param.u64 %%a8, [p7];\nadd.u64 %%a9, %%a8, %%a10;\nst.global.f32 [%%a9], %%f0;\nret;\n}\n'
}

# launch_of PLACES AT: prints a launch with the buffers at 256 times 1 to 7 in the parameters named by the digits of
# PLACES, null in the others, and the sum at AT
launch_of() {
        local i word='launch 0 1 1 1'
        for i in 0 1 2 3 4 5 6; do
                case $1 in
                *$i*) word="$word a+$((256 * (i + 1)))" ;;
                *) word="$word null" ;;
                esac
        done
        echo "$word a+$2"
}

# many_pack PACK KERNEL: writes a pack that fills seven buffers from the input and one weight each, then adds some of
# them. Every sum may find each buffer in either place.
many_pack() {
        local pack=$1 kernel=$2 i sums=(0123 3456 0246 0135 1256 0145) n=6
        mkdir "$pack"
        many_ptx "$kernel" >"$pack/k.ptx"
        head -c 128 lut/tables/sim-h200.lut | tr '\200-\377' '?' >"$pack/in.bin"
        head -c 1792 docs/pack.md | tr '\200-\377' '?' >"$pack/w.bin"
        head -c 128 /dev/zero >"$pack/out.bin"
        {
                printf 'detshare-pack 1\nmodel many\nclass be\nbatch 1\narch sm_60\nframework none\ncompiler none\n'
                for i in k.ptx w.bin in.bin out.bin; do file_line "$pack" $i; done
                printf 'module k.ptx\nweights w.bin\narena 4096\ninput x f32 32 0 128\n'
                for i in $(seq 0 $((n - 1))); do echo "output y$i f32 32 $((2048 + 256 * i)) 128"; done
                echo "kernel $kernel 32 0 8"
                for i in 0 1 2 3 4 5 6; do echo "launch 0 1 1 1 a+0 w+$((256 * i)) null null null null null a+$((256 * (i + 1)))"; done
                for i in $(seq 0 $((n - 1))); do launch_of "${sums[i]}" $((2048 + 256 * i)); done
                echo "buffer 0 128 0 $((n + 6))"
                for i in 0 1 2 3 4 5 6; do echo "buffer $((256 * (i + 1))) 128 $i $((n + 6))"; done
                for i in $(seq 0 $((n - 1))); do echo "buffer $((2048 + 256 * i)) 128 $((i + 7)) $((n + 6))"; done
                echo "x-writes 0 7"
                for i in 0 1 2 3 4 5 6; do echo "x-weight $((256 * i)) 128"; done
                echo "case 0 input 0 in.bin"
                for i in $(seq 0 $((n - 1))); do echo "case 0 output $i out.bin 0 1"; done
                echo end
        } >"$pack/pack.txt"
}

printf '[channels]\npool_mib=4\nbe=1/3\n' >"$tmp/detshared.conf"
"$build/detshared" --device sim:a2000 --config "$tmp/detshared.conf" --socket "$tmp/sock" >"$tmp/daemon.log" 2>&1 &
daemon=$!
for _ in $(seq 9000); do
        grep -q serving "$tmp/daemon.log" && break
        kill -0 "$daemon" || break
        sleep 0.1
done

many_pack "$tmp/many" many
serve "$tmp/many" --class be --digest --json >"$tmp/plain" 2>"$tmp/err"
result "the pack runs" $? "$tmp/err"
for state in beside turns; do
        serve "$tmp/many" --class be --digest --json --bimodal all --state $state --requests 40 >"$tmp/out" 2>"$tmp/err"
        result "state $state: the pack runs with tensors in two places" $? "$tmp/err"
        check "the forms of the kernel need several images" test "$(figure forms)" -gt 64
        check "state $state: the bytes are those of the plain pack" test -n "$(digests "$tmp/plain")" -a "$(digests "$tmp/out")" = "$(digests "$tmp/plain")"
done

# Nine million bytes of comment, and a kernel named like a word in the message about large modules.
many_pack "$tmp/large" module
yes '// ------------------------------------------------------------------------------------' | head -c 9000000 >>"$tmp/large/k.ptx"
echo >>"$tmp/large/k.ptx"
sed -i "s/^file k.ptx .*/$(file_line "$tmp/large" k.ptx)/" "$tmp/large/pack.txt"
serve "$tmp/large" --class be --digest --json >"$tmp/out" 2>"$tmp/err"
result "a large module runs" $? "$tmp/err"
serve "$tmp/large" --class be --digest --json --bimodal all >"$tmp/out" 2>"$tmp/err"
check "--bimodal refuses a module that is too large" test $? -ne 0
check "the message says that the module is too large" grep -q 'too large to have coloured kernels' "$tmp/err"

kill -TERM "$daemon"
wait "$daemon"
result "the daemon ends in order" $? "$tmp/daemon.log"
daemon=
echo "$passed passed, $failed failed"
[ $failed = 0 ]
