# SPDX-License-Identifier: Apache-2.0
#
# Tests of policies load the plug-ins.

$(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(wildcard tests/unit/test_policy*.c)): | $(POLICIES)
# Tests of the modules of detshare call their functions.
$(patsubst %,$(BUILD)/tests/unit/test_policy_%,budget detshare_pauses felt requests sharing): $(filter-out %/detshare.o,$(call obj,$(wildcard policies/detshare/*.c)))
