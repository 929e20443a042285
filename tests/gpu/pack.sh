#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What a GPU machine without our packages and compilers needs to run the tests: a copy of the build, without debugging
# information, and the shared libraries it stands on (not libc's own, not the driver). tests/gpu/on-gpu.sh runs from it.
#
# OUT/b is laid out as the build directory is, OUT/lib has the libraries. Must stay under 60 MiB.
#
# usage: tests/gpu/pack.sh BUILD [OUT]        OUT: build/gpurun
set -eu
cd "$(dirname "$0")/../.."
build=$(realpath "$1")
out=${2:-build/gpurun}
limit_kib=$((60 * 1024))

rm -rf "${out:?}/b" "${out:?}/lib"
mkdir -p "$out/b" "$out/lib"
(
        cd "$build"
        files="detshared detsharectl detshare-serve libdetshare-client.so libdetshare-client.so.0 libexec cuda policies demo ptx e2e gpu bench tests/programs tests/e2e
                tests/gpu tests/examples tests/manager tests/runtime tests/policies/evictor.so"
        for f in $files; do
                [ -e "$f" ] && echo "$f" && continue
                echo "pack: $build/$f is missing: make gpu-build bench-gpu-build" >&2
                exit 1
        done | tar -c --exclude='*.json' --exclude='ptx/*.cubin' --exclude='tests/runtime/static' -T -
) | tar -x -C "$out/b"

# 40 MiB of one runtime in every program: packed together they are little
static=$(mktemp -d)
trap 'rm -rf "$static"' EXIT
cp "$build"/tests/runtime/static/* "$static/"
strip -s "$static"/*
tar -cJf "$out/b/tests/runtime/static.tar.xz" -C "$static" .

elf() {
        find "$out/b" -type f \( -perm -u+x -o -name '*.so*' \) -exec sh -c 'head -c 4 "$1" | grep -q ELF && echo "$1"' _ {} \;
}
elf | while read -r f; do
        strip -g "$f"
done
# what is the system's everywhere, what is ours, what is the driver's; NVIDIA's libraries are hundreds of MiB, and there as well
nvidia='lib(cublas|cublasLt|cudnn|curand|cusparse|cusolver|cufft|nvrtc|nvJitLink|nccl|cudart)'
not='linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|resolv|util|gcc_s|stdc\+\+)\.so|libcuda\.so|libdetshare-client\.so|'"$nvidia"'\.so'
elf | xargs ldd 2>/dev/null | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u | grep -vE "/($not)" | while read -r f; do
        cp -L "$f" "$out/lib/"
done
chmod -R go-w "$out"
size=$(du -sk "$out" | cut -f1)
echo "pack: $out has $((size / 1024)) MiB"
du -sk "$out"/b/* "$out"/lib | sort -rn | head -n 8
[ "$size" -le "$limit_kib" ] || { echo "pack: more than $((limit_kib / 1024)) MiB" >&2; exit 1; }
