#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The service under a real systemd: systemd-nspawn boots a copy of a Debian root with the staged tree (`make install`)
# in it. The socket starts the daemon, and programs use the installed libcuda.so.1 inside the unit's sandbox. Start,
# status, reload, restart, watchdog, stop and the journal behave as detshared(8) says.
#
# It downloads nothing. Without systemd-nspawn, root or a root to boot it is skipped. `make test-boot` makes the root
# (debootstrap) and runs it.
#
# usage: tests/systemd/boot.sh BUILD [ROOT]       ROOT: BUILD/boot-root
set -u
cd "$(dirname "$0")/../.." || exit
build=$(cd "$1" && pwd)
base=${2:-$build/boot-root}
passed=0
failed=0
leave_out() {
        echo "SKIP the service under a booted systemd: needs $*"
        echo "0 passed, 0 failed"
        exit 0
}
[ "$(id -u)" = 0 ] || leave_out "root, for systemd-nspawn"
command -v systemd-nspawn >/dev/null || leave_out "systemd-nspawn (package systemd-container)"
[ -x "$base/sbin/init" ] || leave_out "a root to boot in $base (make test-boot makes one)"

work=$(mktemp -d /tmp/detshare-boot-XXXXXX)
root=$work/root
nspawn=
leader=

cleanup() {
        if [ -n "$nspawn" ]; then
                kill -KILL ${leader:+"$leader"} "$nspawn" 2>/dev/null
                wait "$nspawn" 2>/dev/null
        fi
        rm -rf "$work"
}
trap cleanup EXIT

ok() {
        passed=$((passed + 1))
}
bad() {
        failed=$((failed + 1))
        echo "FAIL $*"
}
# is WHAT PATTERN TEXT: counts a check that passes if TEXT matches PATTERN
is() {
        if grep -qE -- "$2" <<<"$3"; then ok; else bad "$1: $3"; fi
}
# equals WHAT WANTED GOT: counts a check that passes if GOT equals WANTED
equals() {
        if [ "$2" = "$3" ]; then ok; else bad "$1: '$3' and not '$2'"; fi
}
inside() {
        timeout 60 nsenter -t "$leader" -a -- env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C \
                SYSTEMD_PAGER='' "$@" 2>&1
}
property() {
        inside systemctl show -P "$1" detshared.service
}
# pid_of NAME: finds a process without pgrep, because a minimal root has no procps
pid_of() {
        inside sh -c 'for p in /proc/[0-9]*; do [ "$(cat "$p/comm" 2>/dev/null)" != "$1" ] || echo "${p#/proc/}"; done' sh "$1"
}
signal() { # SIGNAL PID
        inside sh -c 'kill -s "$1" "$2"' sh "$@"
}
# until_ SECONDS COMMAND...: waits until the command succeeds
until_() {
        local end=$((SECONDS + $1))
        shift
        until "$@" >/dev/null 2>&1; do
                [ "$SECONDS" -lt "$end" ] || return 1
                sleep 0.1
        done
}

# --- the root with the installed files --------------------------------------------------------------------------------
cp -a "$base" "$root"
make -s --no-print-directory BUILD="$build" install DESTDIR="$root" PREFIX=/usr >"$work/install.log" 2>&1 ||
        { cat "$work/install.log"; bad "make install"; }
for program in usr/sbin/detshared usr/bin/detsharectl usr/libexec/detshare/detshare-worker usr/libexec/detshare/detshare-helper; do
        ldd "$root/$program" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p'
done | sort -u | while read -r library; do
        case $library in "$work"/*) continue ;; esac
        [ -e "$root$library" ] || cp -L "$library" "$root$library"
done
mkdir -p "$root/opt/ptx"
cp -r "$build/tests/programs" "$build/tests/examples/hold" "$root/opt/"
cp -r "$build/ptx/." "$root/opt/ptx/"
chmod -R go+rX "$root/opt"
# Masks services of the container that only cost time.
for unit in apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer man-db.timer dpkg-db-backup.timer \
        e2scrub_reap.service networking.service; do
        ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
rm -f "$root/var/log/journal" -r

systemd-nspawn --quiet --register=no --keep-unit --private-network --kill-signal=SIGRTMIN+4 -D "$root" -b --console=pipe \
        </dev/null >"$work/console" 2>&1 &
nspawn=$!
until_ 20 pgrep -P "$nspawn" || { cat "$work/console"; bad "systemd-nspawn does not start"; echo "$passed passed, $failed failed"; exit 1; }
leader=$(pgrep -P "$nspawn" | head -n 1)
until_ 60 nsenter -t "$leader" -a systemctl is-active multi-user.target ||
        { tail -n 30 "$work/console"; bad "the container does not boot"; echo "$passed passed, $failed failed"; exit 1; }
inside systemd-sysusers >/dev/null
inside systemd-tmpfiles --create detshare.conf >/dev/null
is "the worker's user" '^detshare:' "$(inside getent passwd detshare)"
is "the administrators' group" '^detshare-admin:' "$(inside getent group detshare-admin)"

# --- start by the socket ----------------------------------------------------------------------------------------------
inside systemctl enable --now --quiet detshared.socket
equals "the service before the first client" inactive "$(inside systemctl is-active detshared.service)"
is "the first client" 'sim:h200' "$(inside detsharectl status)"
equals "the service after the first client" active "$(inside systemctl is-active detshared.service)"
is "systemctl status" 'Status: "serving DetShare sim:h200: [0-9]+ sessions? \([0-9]+ latency-sensitive\), policy multistream' \
        "$(inside systemctl status detshared.service)"
equals "the mode of the socket" 666 "$(inside stat -c %a /run/detshare/detshared.sock)"
is "no warnings or errors in the journal" '^$' "$(inside journalctl -q -p warning -u detshared.service -u detshare-devices.service -o cat)"

# --- users and privileges of the processes ----------------------------------------------------------------------------
main=$(property MainPID)
worker=$(pid_of detshare-worker)
helper=$(pid_of detshare-helper)
field() { # PID NAME
        inside sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status"
}
equals "the worker's user" detshare "$(inside stat -c %U "/proc/$worker")"
# A user namespace may have few user ids: 65534 stands for an unmapped one.
is "the helper has a user id of its own" '^(65534|2[01][0-9]{8})$' "$(inside stat -c %u "/proc/$helper")"
for pid in "$main" "$worker" "$helper"; do
        equals "no new privileges" 1 "$(field "$pid" NoNewPrivs)"
        equals "system calls are filtered" 2 "$(field "$pid" Seccomp)"
done
equals "the worker's capabilities" 0000000000000000 "$(field "$worker" CapEff)"
equals "the helper's capabilities" 0000000000000000 "$(field "$helper" CapEff)"
equals "the supervisor's capabilities: KILL, SETGID, SETUID" 00000000000000e0 "$(field "$main" CapEff)"
# A container may have a lower limit than the unit requests.
is "the soft limit of open files equals the hard limit" '^([0-9]+) \1$' "$(inside sed -n 's/^Max open files *\([0-9]*\) *\([0-9]*\) .*/\1 \2/p' "/proc/$main/limits")"

# --- programs ---------------------------------------------------------------------------------------------------------
run_program() { # USER NAME
        inside setpriv --reuid="$1" --regid="$1" --clear-groups env LD_LIBRARY_PATH="$lib" DETSHARE_CLASS=be \
                sh -c "cd /opt && exec /opt/programs/$2 /opt/ptx/sm_75"
}
lib=$(cd "$root" && find usr/lib -path '*detshare/libcuda.so.1' -printf '/%h\n')
for program in saxpy gemm streams_events prints; do
        out=$(run_program 1000 "$program")
        equals "$program under uid 1000: $out" 0 $?
done

# --- reload -----------------------------------------------------------------------------------------------------------
inside systemctl reload detshared.service
equals "systemctl reload" 0 $?
equals "reload keeps the process" "$main" "$(property MainPID)"
printf '[daemon]\ncolour = blue\n' >"$root/etc/detshare/conf.d/90-broken.conf"
inside systemctl reload detshared.service >/dev/null
is "the status names the refused configuration" 'refused.*90-broken.conf:2.*colour' "$(property StatusText)"
equals "a refused configuration does not stop the service" active "$(inside systemctl is-active detshared.service)"
rm "$root/etc/detshare/conf.d/90-broken.conf"
inside systemctl reload detshared.service
is "the status after the correction" '^serving' "$(property StatusText)"

# --- journal ----------------------------------------------------------------------------------------------------------
# A client that sends invalid bytes
inside setpriv --reuid=1000 --regid=1000 --clear-groups perl -MSocket -e '
        socket(S, AF_UNIX, SOCK_STREAM, 0) or die; connect(S, sockaddr_un("/run/detshare/detshared.sock")) or die;
        syswrite(S, "\xff" x 64); sysread(S, $b, 1);'
fields() {
        inside journalctl -q -u detshared.service -o json | grep "$1" | tail -n 1
}
there() {
        [ -n "$(fields 'client closed')" ]
}
until_ 10 there
entry=$(fields 'client closed')
is "journal: the user id of the client" '"DETSHARE_CLIENT_UID":"1000"' "$entry"
is "journal: the process id of the client" '"DETSHARE_CLIENT_PID":"[0-9]+"' "$entry"
is "journal: the GPU" '"DETSHARE_GPU":"sim:h200"' "$entry"
is "journal: the message id" '"MESSAGE_ID":"[0-9a-f]{32}"' "$entry"
is "journal: the priority" '"PRIORITY":"4"' "$entry"
is "journal: the message id of a refused configuration" '"MESSAGE_ID":"[0-9a-f]{32}"' "$(fields 'colour')"

# --- restart, failure, watchdog ---------------------------------------------------------------------------------------
# A session with memory during a restart of the daemon: at the end of its input, hold exits with 0 if the session still
# exists.
mkfifo "$work/in"
exec 8<>"$work/in"
inside env LD_LIBRARY_PATH="$lib/.." /opt/hold <"$work/in" >"$work/held" 2>&1 8>&- &
held=$!
one_session() {
        [[ $(property StatusText) == *": 1 session "* ]]
}
until_ 20 one_session && ok || bad "a session is not counted: $(property StatusText)"
inside systemctl restart detshared.service
equals "systemctl restart" 0 $?
until_ 20 one_session && ok || bad "the session is lost after the restart: $(property StatusText)"
exec 8>&-
wait "$held"
equals "a client during the restart: $(cat "$work/held")" 0 $?
equals "the service after the restart" active "$(inside systemctl is-active detshared.service)"
[ "$main" != "$(property MainPID)" ] && ok || bad "restart did not replace the process"
main=$(property MainPID)
signal KILL "$main"
changed() {
        [ "$(property MainPID)" != "$main" ] && [ "$(property MainPID)" != 0 ] && [ "$(inside systemctl is-active detshared.service)" = active ]
}
if until_ 20 changed; then ok; else bad "the service does not restart after SIGKILL"; fi
mkdir -p "$root/run/systemd/system/detshared.service.d"
inside sh -c 'mkdir -p /run/systemd/system/detshared.service.d; printf "[Service]\nWatchdogSec=2\n" >/run/systemd/system/detshared.service.d/w.conf; systemctl daemon-reload; systemctl restart detshared.service'
main=$(property MainPID)
signal STOP "$main"
if until_ 30 changed; then ok; else bad "the watchdog does not end a daemon stopped by SIGSTOP"; fi
is "the journal names the watchdog" 'atchdog' "$(inside journalctl -q -u detshared.service -o cat)"
is "the daemon serves after the watchdog" 'sim:h200' "$(inside detsharectl status)"

# --- stop -------------------------------------------------------------------------------------------------------------
inside systemctl stop detshared.socket detshared.service
equals "the service after systemctl stop" inactive "$(inside systemctl is-active detshared.service)"
equals "the result of the stop" success "$(property Result)"
equals "no worker or helper after the stop" "" "$(pid_of detshare-worker)$(pid_of detshare-helper)"
inside test -e /run/detshare/detshared.sock && bad "the socket file still exists" || ok
# The socket unit need not be enabled: `systemctl start` is enough.
inside systemctl disable --quiet detshared.socket
inside systemctl start detshared.service
equals "the service without its socket unit" active "$(inside systemctl is-active detshared.service)"
is "the daemon serves without its socket unit" 'sim:h200' "$(inside detsharectl status)"
inside journalctl -q -u detshared.service --no-pager >"$work/journal"
[ "$failed" = 0 ] || { echo "--- the journal"; tail -n 100 "$work/journal"; }

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
