#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks that the configuration's keys are the same in the daemon's tables, in detshared.conf(5), in the installed
# example and in the fuzzer's dictionary, and that the keys which the manual page lists for a reload are those that
# reload.c compares.
set -u
cd "$(dirname "$0")/../.." || exit
. tests/support/same.sh

source=daemon/supervisor/config.c page=docs/man/detshared.conf.5.scd example=systemd/detshared.conf
keys=$(sed -n 's/^ *{"\([a-z]*\)", "\([a-z_]*\)", set_.*/\1.\2/p; s/^ *{"\([a-z_]*\)", DS_RULE_.*/user.\1/p' $source)
[ "$(wc -l <<<"$keys")" -ge 27 ] || { echo "only $(wc -l <<<"$keys") keys in $source"; bad=1; }

# keys_of: prints section.key of each line with a key; $2: pattern of the beginning of such a line
keys_of() {
        awk -v mark="$2" '/^#* *\[(daemon|gpu|channels|limits|class|user|group|policy)/ { match($0, /\[[a-z]*/); section = substr($0, RSTART + 1, RLENGTH - 1) }
                section == "policy" { next }
                { if (section == "group") section = "user" }
                index($0, mark) == 1 && match(substr($0, length(mark) + 1), /^[a-z_]+ =/) {
                        key = substr($0, length(mark) + 1, RLENGTH - 2); print section "." key }' "$1"
}
same "$source, $page" "$keys" "$(sed '/^# RELOADING/,$d' $page | keys_of /dev/stdin '*')"
same "$source, $example" "$keys" "$(keys_of $example '#')"
for key in $(sed "s/.*[.]//" <<<"$keys"); do
        grep -q "^\"$key=\"" tests/fuzz/config.dict || { echo "tests/fuzz/config.dict does not know $key"; bad=1; }
done
same "keys that need a restart" "$(sed -n 's/^ *{"\([a-z_]*\)", \(differ\|started\).*/\1/p' daemon/supervisor/reload.c)" \
        "$(tr '\n' ' ' <$page | sed -n 's/.* - \([*]device[*].*\) need a *restart.*/\1/p' | grep -oE '\*[a-z_]+\*' | tr -d '*')"
exit $bad
