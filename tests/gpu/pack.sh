#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Pack what a GPU machine without DetShare's packages and compilers needs to run the tests: a copy of the build without
# symbols, and the shared libraries that it needs (not libc's own, not the driver). tests/gpu/on-gpu.sh runs from it.
#
# OUT/b has the layout of the build directory, OUT/lib the libraries. Fails above 60 MiB. Most of it are programs that have
# the daemon or a runtime linked in, so only those of tests/e2e are packed that a script of tests/gpu names.
#
# usage: tests/gpu/pack.sh BUILD [OUT]        OUT: build/gpurun
set -eu
cd "$(dirname "$0")/../.."
build=$(realpath "$1")
out=${2:-build/gpurun}
limit_kib=$((60 * 1024))

rm -rf "${out:?}/b" "${out:?}/lib"
mkdir -p "$out/b" "$out/lib"
e2e=$(for f in "$build"/tests/e2e/*; do
        name=${f##*/}
        ! grep -qw -e "$name" tests/gpu/*.sh || echo "tests/e2e/$name"
done)
(
        cd "$build"
        files="detshared detsharectl detshare-serve libdetshare-client.so libdetshare-client.so.0 libexec cuda policies demo ptx e2e gpu bench tests/programs
                $e2e tests/gpu tests/examples tests/manager tests/runtime tests/policies/evictor.so"
        for f in $files; do
                [ -e "$f" ] && echo "$f" && continue
                echo "pack: $build/$f is missing: make gpu-build bench-gpu-build" >&2
                exit 1
        done | tar -c --exclude='*.json' --exclude='ptx/*.cubin' --exclude='tests/runtime/static' -T -
) | tar -x -C "$out/b"
# The linker's tests need their machine code, other than the corpus of kernels.
tar -c -C "$build" ptx/sm_90/linked | tar -x -C "$out/b"

# Every program has the same static runtime, 40 MiB together: packed as one file they are small.
static=$(mktemp -d)
trap 'rm -rf "$static"' EXIT
cp -a "$build"/tests/runtime/static/* "$static/"
strip -s "$static"/*
tar -cJf "$out/b/tests/runtime/static.tar.xz" -C "$static" .

elf() {
        find "$out/b" -type f \( -perm -u+x -o -name '*.so*' \) -exec sh -c 'head -c 4 "$1" | grep -q ELF && echo "$1"' _ {} \;
}
elf | while read -r f; do
        strip -s "$f"
done
# Not packed: the system's own libraries, DetShare's, the driver's, and NVIDIA's, which have hundreds of MiB and are there.
nvidia='lib(cublas|cublasLt|cudnn|curand|cusparse|cusolver|cufft|nvrtc|nvJitLink|nccl|cudart)'
not='linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|resolv|util|gcc_s|stdc\+\+)\.so|libcuda\.so|libdetshare-client\.so|'"$nvidia"'\.so'
# Criterion needs libgit2, and that ten more libraries, only to show differences: the stub of the unit tests takes its place
elf | LD_LIBRARY_PATH=$build/tests/late xargs ldd 2>/dev/null | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u | grep -vE "/($not)" | while read -r f; do
        cp -L "$f" "$out/lib/"
done
chmod -R go-w "$out"
size=$(du -sk "$out/b" "$out/lib" | awk '{ n += $1 } END { print n }')
echo "pack: $out has $((size / 1024)) MiB"
du -sk "$out"/b/* "$out"/lib | sort -rn | head -n 8
[ "$size" -le "$limit_kib" ] || { echo "pack: more than $((limit_kib / 1024)) MiB" >&2; exit 1; }
