#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Files that `make install` puts where systemd looks: complete, accepted by `systemd-analyze verify`, with an exposure
# of at most 2.5, with the paths of PREFIX. The configuration is never overwritten, and `make uninstall` removes the
# rest. Also the script that makes device nodes, on an emulated machine. Parts that need systemd's programs are
# skipped where these are not installed.
#
# usage: tests/e2e/systemd_units.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit
build=$(cd "$1" && pwd)
dir=$(mktemp -d /tmp/detshare-units-XXXXXX)
trap 'rm -rf "$dir"' EXIT
passed=0
failed=0
stage=$dir/stage
units=$stage/opt/ds/lib/systemd/system

ok() {
        passed=$((passed + 1))
}
bad() {
        failed=$((failed + 1))
        echo "FAIL $*"
}
# equals WHAT WANTED GOT: the two values are equal
equals() {
        if [ "$2" = "$3" ]; then ok; else bad "$1: '$3' and not '$2'"; fi
}
do_make() {
        make -s --no-print-directory BUILD="$build" DESTDIR="$stage" PREFIX=/opt/ds LIBDIR=/opt/ds/lib "$@" >"$dir/make" 2>&1 ||
                bad "make $1: $(tail -n 3 "$dir/make")"
}

# --- install --------------------------------------------------------------------------------------------------
do_make install
for file in detshared.service detshared.socket detshare-devices.service; do
        [ -s "$units/$file" ] && ok || bad "$file is not installed"
        grep -q '@PREFIX@' "$units/$file" && bad "$file: $(grep @PREFIX@ "$units/$file")"
done
for file in lib/sysusers.d/detshare.conf lib/tmpfiles.d/detshare.conf share/man/man8/detshared.8 share/man/man1/detsharectl.1; do
        [ -s "$stage/opt/ds/$file" ] && ok || bad "$file is not installed"
done
for program in $(sed -n 's/^Exec[A-Za-z]*=[-+]*\([^ ]*\).*/\1/p' "$units"/*.service | grep -v '^/bin/sh'); do
        [ -x "$stage$program" ] && ok || bad "$program, which a unit names, is not installed"
done
echo '# mine' >"$stage/etc/detshare/detshared.conf"
do_make install
equals "an administrator's configuration" '# mine' "$(cat "$stage/etc/detshare/detshared.conf")"
# The installed daemon finds its parts beside itself.
timeout 300 "$stage/opt/ds/sbin/detshared" --config "$stage/etc/detshare/detshared.conf" --device sim:none --socket "$dir/sock" 2>"$dir/err"
grep -q 'no such model' "$dir/err" && ok || bad "the installed daemon: $(cat "$dir/err")"

# --- programs of other projects, built against the installed tree ---------------------------------------------
export PKG_CONFIG_PATH=$stage/opt/ds/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$stage
# shellcheck disable=SC2046
builds() {
        "${CC:-cc}" -fPIC -Wall -Werror $(pkg-config --cflags "$1") -o "$dir/$2" "$3" $(pkg-config --libs "$1") >"$dir/cc" 2>&1 && ok ||
                bad "$3 does not build with pkg-config $1: $(tail -n 3 "$dir/cc")"
}
if command -v pkg-config >/dev/null; then
        equals "the version of detshare.pc" "$(cat VERSION)" "$(pkg-config --modversion detshare)"
        equals "the version of detshare-policy.pc" "$(cat VERSION)" "$(pkg-config --modversion detshare-policy)"
        builds detshare hello examples/client/hello.c
        builds detshare-policy shortest.so examples/policy/shortest.c
        policydir=$stage$(PKG_CONFIG_SYSROOT_DIR='' pkg-config --variable=policydir detshare-policy)
        [ -f "$policydir/sgdrc.so" ] && ok || bad "policydir is not where the policies are: $policydir"
        install -m 644 "$dir/shortest.so" "$policydir/"
        "$stage/opt/ds/sbin/detshared" --config "$stage/etc/detshare/detshared.conf" --device sim:h200 --policy shortest \
                --socket "$dir/sock" >"$dir/out" 2>"$dir/err" </dev/null &
        daemon=$!
        for _ in $(seq 2000); do
                grep -q serving "$dir/out" && break
                kill -0 "$daemon" 2>/dev/null || break
                sleep 0.05
        done
        DETSHARE_SOCKET=$dir/sock LD_LIBRARY_PATH=$stage/opt/ds/lib timeout 300 "$dir/hello" >"$dir/hello.out" 2>&1 && ok ||
                bad "a program and a policy built against the installed tree: $(cat "$dir/hello.out" "$dir/err")"
        kill "$daemon"
        wait "$daemon" && ok || bad "the installed daemon ends with $?"
        rm "$policydir/shortest.so"
else
        echo "SKIP building against the installed tree: needs pkg-config"
fi

# --- documents, and the compiler of model packs ---------------------------------------------------------------
share=$stage/opt/ds/share
for file in README.md CHANGELOG.md $(git ls-files 'docs/*.md' 'docs/*.svg' 2>/dev/null); do
        cmp -s "$file" "$share/doc/detshare/$file" && ok || bad "$file is not installed"
done
out=$("$stage/opt/ds/bin/detshare-pack" --check tests/offline/packs/tiny-mlp 2>&1) && ok || bad "the installed detshare-pack --check: $out"
# An interpreter without the machine's packages. Python writes no files beside the module.
out=$(python3 -S -I "$stage/opt/ds/bin/detshare-pack" model.onnx 2>&1)
equals "the exit status without Python packages" 3 $?
grep -q 'lacks the Python packages numpy, onnx, triton' <<<"$out" && ok || bad "detshare-pack without Python packages prints: $out"
equals "what Python leaves" "" "$(find "$share/detshare/offline" -name '__pycache__')"

# --- systemd-analyze -----------------------------------------------------------------------------------------------
# The same with the prefix of distributions, since systemd looks only there.
rm -rf "${dir:?}/usr"
make -s --no-print-directory BUILD="$build" DESTDIR="$dir/usr" PREFIX=/usr install >"$dir/make" 2>&1 || bad "make install: $(tail -n 3 "$dir/make")"
if command -v systemd-analyze >/dev/null && systemd-analyze --help | grep -q -- --offline; then
        # verify finds the machine's units that these refer to, and the programs by their full path.
        for unit in detshared.socket detshared.service detshare-devices.service; do
                sed "s|=/usr/sbin/detshared|=$dir/usr/usr/sbin/detshared|; s|=/usr/libexec|=$dir/usr/usr/libexec|" \
                        "$dir/usr/usr/lib/systemd/system/$unit" >"$dir/$unit"
        done
        words=$(systemd-analyze verify --man=no "$dir/detshared.socket" "$dir/detshared.service" "$dir/detshare-devices.service" 2>&1 |
                grep detshare)
        equals "systemd-analyze verify" "" "$words"
        sed 's/^FileDescriptorName=/FileDescriptorNam=/' "$dir/detshared.socket" >"$dir/wrong.socket"
        cp "$dir/detshared.service" "$dir/wrong.service"
        systemd-analyze verify --man=no "$dir/wrong.socket" 2>&1 | grep -qF FileDescriptorNam && ok || bad "verify does not find a wrong key"
        for unit in detshared detshare-devices; do
                limit=25
                [ "$unit" = detshared ] || limit=70
                if systemd-analyze security --offline=yes --threshold="$limit" "$dir/$unit.service" >"$dir/security" 2>&1; then
                        ok
                else
                        bad "$unit.service is exposed: $(tail -n 1 "$dir/security")"
                fi
                tail -n 1 "$dir/security"
        done
        systemd-analyze security --offline=yes --threshold=10 "$dir/detshared.service" >/dev/null 2>&1 &&
                bad "systemd-analyze ignores the threshold" || ok
else
        echo "SKIP units and their sandbox: needs systemd-analyze"
fi
if command -v systemd-sysusers >/dev/null; then
        words=$(systemd-sysusers --dry-run "$stage/opt/ds/lib/sysusers.d/detshare.conf" 2>&1)
        equals "systemd-sysusers" 0 $?
        grep -qiE 'fail|unknown|invalid' <<<"$words" && bad "systemd-sysusers: $words" || ok
else
        echo "SKIP users of the package: needs systemd-sysusers"
fi

# --- system calls of the unit --------------------------------------------------------------------------------------
# tests/gpu/sandbox applies the unit's filter where no systemd runs. The daemon works with it.
if command -v systemd-analyze >/dev/null && [ "$(uname -m)" = x86_64 ]; then
        python3 - systemd/detshared.service.in >"$dir/calls" <<'EOP'
import re, subprocess, sys

def members(name):
    if not name.startswith("@"):
        return {name}
    out = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True).stdout
    words = [line.strip() for line in out.splitlines()[1:]]
    return set().union(*[members(word) for word in words if word and not word.startswith("#")])

calls = members("@default")
for line in open(sys.argv[1]):
    if found := re.match(r"SystemCallFilter=(~?)(.*)", line):
        names = set().union(*[members(name) for name in found[2].split()])
        calls = calls - names if found[1] else calls | names
calls |= members("@default")
source = "#include <sys/syscall.h>\n" + "".join(f"#ifdef __NR_{c}\n=CALL({c})\n#endif\n" for c in sorted(calls))
out = subprocess.run(["gcc", "-E", "-P", "-xc", "-"], input=source, capture_output=True, text=True).stdout
print("\n".join(line[1:] for line in out.splitlines() if line.startswith("=")))
EOP
        version=$(systemd-analyze --version | sed -n '1s/^systemd \([0-9]*\).*/\1/p')
        if [ "$version" = 252 ]; then
                equals "tests/gpu/sandbox_calls.def" "" "$(diff "$dir/calls" <(grep ^CALL tests/gpu/sandbox_calls.def))"
        else
                echo "SKIP system calls of the unit: needs systemd 252, this is $version"
        fi
fi
"$build/tests/gpu/sandbox" "$build/detshared" --device sim:h200 --socket "$dir/sock" >"$dir/out" 2>"$dir/err" </dev/null &
daemon=$!
for _ in $(seq 2000); do
        grep -q serving "$dir/out" && break
        sleep 0.05
done
DETSHARE_SOCKET=$dir/sock LD_LIBRARY_PATH=$build/cuda KERNELS_DIR=$build/ptx/sm_75 timeout 300 "$build/tests/programs/saxpy" >"$dir/saxpy" 2>&1 &&
        ok || bad "a program under a daemon in the sandbox: $(tail -n 2 "$dir/saxpy" "$dir/err")"
kill "$daemon"
wait "$daemon" && ok || bad "the daemon in the sandbox ends with $?"

# --- device nodes ---------------------------------------------------------------------------------------------
machine=$dir/machine
mkdir -p "$machine/proc" "$machine/dev" "$machine/sys/bus/pci/devices/0" "$machine/sys/bus/pci/devices/1"
echo 0x8086 >"$machine/sys/bus/pci/devices/0/vendor"
equals "a machine without a GPU" "" "$(systemd/detshare-devices.sh "$machine" 2>&1)"
echo 0x10de >"$machine/sys/bus/pci/devices/1/vendor"
printf 'Character devices:\n  1 mem\n\nBlock devices:\n  8 sd\n' >"$machine/proc/devices"
equals "a GPU without a driver" "detshare-devices: there is an NVIDIA GPU and no driver for it" \
        "$(systemd/detshare-devices.sh "$machine" 2>&1)"
printf 'Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n507 nvidia-uvm\n' >"$machine/proc/devices"
for gpu in 0 1; do
        mkdir -p "$machine/proc/driver/nvidia/gpus/$gpu"
        printf 'Model: \t\t NVIDIA H200\nDevice Minor: \t %s\n' "$gpu" >"$machine/proc/driver/nvidia/gpus/$gpu/information"
done
: >"$machine/dev/nvidia0"
equals "two GPUs, of one the node is there" "mknod /dev/nvidiactl c 195 255
mknod /dev/nvidia1 c 195 1
mknod /dev/nvidia-uvm c 507 0
mknod /dev/nvidia-uvm-tools c 507 1" "$(systemd/detshare-devices.sh "$machine" 2>&1)"

# --- uninstall ------------------------------------------------------------------------------------------------
do_make uninstall
equals "what stays" etc/detshare/detshared.conf "$(cd "$stage" && find . -type f | sed 's|^\./||')"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
