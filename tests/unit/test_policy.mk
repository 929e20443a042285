# SPDX-License-Identifier: Apache-2.0
#
# Tests of policies load the plug-ins.

$(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(wildcard tests/unit/test_policy*.c)): | $(POLICIES)
