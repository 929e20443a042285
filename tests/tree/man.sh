#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks that the manual pages agree with the programs: scdoc accepts every page; each option of detshared, command of
# detsharectl, message id and journal field is in its page, and the pages name no other.
set -u
cd "$(dirname "$0")/../.." || exit
. tests/support/same.sh

page=docs/man/detshared.8.scd
same "detshared's options" "$(sed -n 's/^ *{"\([a-z-]*\)", \(required\|no\)_argument.*/--\1/p' daemon/supervisor/main.c)" \
        "$(sed -n '/^# OPTIONS/,/^# SIGNALS/p' $page | grep '^\*--' | grep -oE -- '--[a-z-]+')"
same "detshared --help" "$(sed -n '/^static void help/,/^}/p' daemon/supervisor/main.c | grep -oE '^ *"(  --[a-z-]+)[^"]*"' | grep -oE -- '--[a-z-]+ ' | tr -d ' ' | grep -v '^--version$\|^--help$'; echo --version; echo --help)" \
        "$(sed -n '/^# OPTIONS/,/^# SIGNALS/p' $page | grep '^\*--' | grep -oE -- '--[a-z-]+')"
same "message ids" "$(grep -oE '"[0-9a-f]{32}"' daemon/supervisor/journal.c | tr -d '"')" "$(grep -oE '[0-9a-f]{32}' $page)"
same "journal fields" "$(grep -oE '"(DETSHARE_[A-Z_]+)"' daemon/supervisor/journal.c | tr -d '"')" \
        "$(sed -n '/^# JOURNAL/,/^# ENVIRONMENT/p' $page | grep -oE 'DETSHARE_[A-Z_]+=\*' | tr -d '=*')"
same "detsharectl's commands" "$(sed -n '/struct ctl_command ctl_commands/,/^};/s/^ *[.]name = "\([^"]*\)",$/\1/p' client-lib/ctl/commands.c)" \
        "$(sed -n '/^# COMMANDS/,/^# ENVIRONMENT/p' docs/man/detsharectl.1.scd | sed -n 's/^\*\([a-z-]*\)[* ].*/\1/p')"
page=docs/man/detshare-replay.1.scd
named() { sed -n '/^# OPTIONS/,/^# SESSIONS/p' $page | grep '^\*--' | grep -oE '\*--[a-z-]+' | tr -d '*'; }
same "detshare-replay's options" "$(sed -n 's/^ *{"\([a-z-]*\)", \(required\|no\)_argument.*/--\1/p' daemon/replay/options.c)" "$(named)"
same "detshare-replay --help" "$(sed -n '/ds_replay_usage\[\]/,/;$/p' daemon/replay/options.c | grep -oE '^ *"  --[a-z-]+|--version' | grep -oE -- '--[a-z-]+')" "$(named)"
same "detshare-pack's options" "$(sed -n '/^def parser/,/^def list_models/p' offline/detpack/cli.py | grep -oE '"--[a-z]+"' | tr -d '"')" \
        "$(sed -n '/^# OPTIONS/,/^# REQUIREMENTS/p' docs/man/detshare-pack.1.scd | grep '^[*]-' | grep -oE -- '--[a-z]+')"
if command -v scdoc >/dev/null; then
        for page in docs/man/*.scd; do
                scdoc <"$page" >/dev/null || { echo "$page cannot be built"; bad=1; }
        done
fi
# references from one of DetShare's manual pages to another must name existing pages
grep -ohE '\*(detshare[a-z.-]*|libdetshare[a-z-]*)\*\([0-9]\)' docs/man/*.scd systemd/*.in | sort -u | tr -d '*)' | while IFS='(' read -r name section; do
        [ -e "docs/man/$name.$section.scd" ] || echo "there is no page $name($section)"
done | grep . && bad=1
exit $bad
