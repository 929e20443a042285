#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Install the packages that DetShare's build and tests need and this machine lacks: Debian packages with apt (as root,
# or with sudo), and, if there is no CUDA toolkit, its compiler and headers from NVIDIA's wheels into
# build/cuda-toolkit. Prints each step. If nothing is missing, it does nothing, quickly, and needs no root.
#
# usage: .ci/deps.sh [triton] [PACKAGE...]
#        triton    also the Triton compiler's wheel, into build/triton, for the tests' corpus of PTX
#        PACKAGE   further packages, for targets that are not built every day
set -eu
cd "$(dirname "$0")/.."
triton=
if [ "${1:-}" = triton ]; then
        triton=yes
        shift
fi

packages="gcc g++ clang make pkg-config libuv1-dev libprotobuf-c-dev protobuf-c-compiler libinih-dev
libsmartcols-dev uthash-dev liblz4-dev libzstd-dev libxxhash-dev libcriterion-dev libsystemd-dev libsqlite3-dev scdoc libclang-rt-14-dev cppcheck
clang-format python3 jq procps $*"

missing=
for p in $packages; do
        dpkg-query -W -f='${Status}\n' "$p" 2>/dev/null | grep -q '^install ok installed' || missing="$missing $p"
done
have_cuda() {
        for d in "${CUDA_HOME:-}" /usr/local/cuda build/cuda-toolkit/nvidia/cu13; do
                [ -n "$d" ] && [ -f "$d/include/cuda.h" ] && [ -f "$d/include/cudaProfiler.h" ] && [ -f "$d/include/cccl/nv/target" ] && [ -x "$d/bin/nvcc" ] && return 0
        done
        return 1
}
triton_version=3.9.0
have_triton() {
        [ -z "$triton" ] || [ "$(cat build/triton/complete 2>/dev/null)" = "$triton_version" ]
}
if ! { have_cuda && have_triton; } && ! python3 -m pip --version >/dev/null 2>&1; then
        missing="$missing python3-pip"
fi

if [ -n "$missing" ]; then
        echo "deps: installing with apt:$missing"
        sudo=
        if [ "$(id -u)" != 0 ]; then
                sudo=sudo
                command -v sudo >/dev/null || { echo "deps: not root and no sudo: install by hand:$missing" >&2; exit 1; }
        fi
        export DEBIAN_FRONTEND=noninteractive
        $sudo apt-get update -q >/dev/null
        # shellcheck disable=SC2086
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >/dev/null
fi

if ! have_cuda; then
        echo "deps: no CUDA toolkit found: fetching nvcc 13.0 and its headers into build/cuda-toolkit"
        rm -rf build/cuda-toolkit
        mkdir -p build
        python3 -m pip install -q --no-deps --target build/cuda-toolkit --root-user-action=ignore \
                nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96 \
                nvidia-cuda-profiler-api==13.0.85 nvidia-cuda-cccl==13.0.85 nvidia-nvjitlink==13.0.88
        chmod -R u+x build/cuda-toolkit/nvidia/cu13/bin build/cuda-toolkit/nvidia/cu13/nvvm/bin
        have_cuda || { echo "deps: the toolkit's wheels did not bring nvcc" >&2; exit 1; }
fi

if ! have_triton; then
        echo "deps: fetching the Triton compiler (250 MB) into build/triton"
        rm -rf build/triton
        mkdir -p build
        python3 -m pip install -q --no-deps --no-compile --target build/triton --root-user-action=ignore triton==$triton_version || {
                echo "deps: the Triton wheel cannot be fetched: the tests' corpus of PTX needs it" >&2
                exit 1
        }
        # keeps the parts of Triton that compile without a GPU; removes its assembler and profilers, and parts of
        # other vendors
        cd build/triton/triton
        rm -rf backends/amd backends/nvidia/bin backends/nvidia/lib/cupti* backends/nvidia/include _C/libproton.so instrumentation \
                plugins profiler tools/ptx* FileCheck include
        cd ../../..
        echo "$triton_version" >build/triton/complete
fi
