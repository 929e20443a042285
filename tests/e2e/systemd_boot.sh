#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The service under a booted systemd, where `make test-boot` has made a root to boot; otherwise the test is skipped
# and says so.
#
# usage: tests/e2e/systemd_boot.sh BUILD
exec "$(dirname "$0")/../systemd/boot.sh" "$1" "${DETSHARE_BOOT_ROOT:-$1/boot-root}"
