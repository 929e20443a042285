#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints the coverage that the corpus in the tree reaches: regions, as the compiler counts them, of the files that
# each target tests.
#
# usage: tests/fuzz/coverage.sh BUILD [CORPUS]   (CORPUS: another corpus, e.g. BUILD/fuzz/corpus of `make fuzz`)
set -u
cd "$(dirname "$0")/../.."
build=$1
corpus=${2:-tests/fuzz/corpus}
out=$build/profiles
if ! command -v llvm-cov >/dev/null; then
        echo "fuzz-coverage: installing with apt: llvm"
        sudo=
        [ "$(id -u)" = 0 ] || sudo=sudo
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends llvm >/dev/null || exit
fi
rm -rf "$out"
mkdir -p "$out"

# sources NAME: prints the source files that target NAME tests
sources() {
        case $1 in
        ptx) ls daemon/ptx/{lexer,parser*,validate*,print*,symtab,diag,module,tables}.c ;;
        interp) ls daemon/ptx/interp/*.c ;;
        pass) ls daemon/ptx/pass/*.c ;;
        fatbin) ls daemon/image/{image,unpack}.c ;;
        cubin) ls daemon/image/cubin.c ;;
        pack) ls serve/{pack*,arrivals}.c ;;
        sass) ls daemon/image/sass*.c ;;
        lut) ls lut/{table,match}.c ;;
        frames) ls daemon/util/frame.c daemon/supervisor/unpack.c ;;
        config) ls daemon/supervisor/{config*,rules}.c ;;
        ring) ls daemon/worker/{ring,record}.c ;;
        worker) ls daemon/worker/{call*,control,session,stream,modules,memory,work,ops,event,message}.c ;;
        dispatch) ls daemon/supervisor/{client,handlers,session*,ledger,attach,output,worker_link,helper_link,charge,window,rpc_table}.c ;;
        reply) ls client-lib/core/{rpc,attach,ring,memory,copy,module,output,stream,event,wait,control,clock,connect}.c ;;
        esac
}

status=0
total_regions=0
total_missed=0
printf '%-10s %8s %8s %8s\n' target regions missed cover
for target in "$build"/tests/fuzz/fuzz_*; do
        name=${target##*/fuzz_}
        [ -n "$(sources "$name")" ] || continue
        LLVM_PROFILE_FILE=$out/$name.raw "$target" "$corpus/$name" >"$out/$name.log" 2>&1 || { echo "$name failed: $out/$name.log"; status=1; }
        llvm-profdata merge -o "$out/$name.prof" "$out/$name.raw" || { status=1; continue; }
        # shellcheck disable=SC2046
        llvm-cov report "$target" -instr-profile="$out/$name.prof" $(sources "$name") >"$out/$name.txt" 2>/dev/null
        read -r _ regions missed cover _ < <(grep '^TOTAL' "$out/$name.txt")
        printf '%-10s %8s %8s %8s\n' "$name" "$regions" "$missed" "$cover"
        total_regions=$((total_regions + regions))
        total_missed=$((total_missed + missed))
done
printf '%-10s %8d %8d %7d%%\n' all $total_regions $total_missed $(((total_regions - total_missed) * 100 / (total_regions ? total_regions : 1)))
echo "by file: $out/NAME.txt"
exit $status
