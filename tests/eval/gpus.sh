#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs measure.py on all GPUs of this machine at once. Each GPU takes a share of the cells, with a copy of STATE and a daemon of its
# own. Their rows become one file again, also when one of them failed. STATE itself is not changed. figures.txt has the
# figures without intervals, which would take minutes of GPU time.
#
# usage: tests/eval/gpus.sh STATE OUT MEASURE-ARGUMENT...        OUT: a folder for the new file (STATE's name) and the logs gpuK.log
set -eu
cd "$(dirname "$0")/../.."
state=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
shift 2
n=$(nvidia-smi -L | grep -c '^GPU') || { echo "gpus: nvidia-smi finds no GPU" >&2; exit 1; }
status=0
shares=()
meet=$(mktemp -d)
for ((k = 0; k < n; k++)); do
        # the output's ending tells whether the file is compressed
        share=$out/gpu$k.csv${state##*.csv}
        [ ! -e "$state" ] || cp "$state" "$share"
        shares+=("$share")
        CUDA_VISIBLE_DEVICES=$k python3 tests/eval/measure.py --state "$share" --shard "$k/$n" --meet "$meet" "$@" >"$out/gpu$k.log" 2>&1 &
        pids[k]=$!
done
for ((k = 0; k < n; k++)); do
        wait "${pids[k]}" || status=$?
        echo "GPU $k: $(tail -n 1 "$out/gpu$k.log")"
done
rm -rf "$meet" # not when this script is ended: the measurements go on
there=()
for share in "${shares[@]}"; do
        [ ! -e "$share" ] || there+=("$share")
done
[ ${#there[@]} = 0 ] || python3 tests/eval/analyse.py "${there[@]}" --draws 0 --merge "$out/$(basename "$state")" >"$out/figures.txt" || status=$?
exit $status
