# SPDX-License-Identifier: Apache-2.0
#
# Policies that only tests load: rules of published systems in miniature, dice, and ones that the host must refuse.

test_policies := $(patsubst tests/policies/%.c,$(BUILD)/tests/policies/%.so,$(wildcard tests/policies/*.c))
$(BUILD)/tests/policies/%.so: $(BUILD)/obj/tests/policies/%.o
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -shared -o $@ $<
$(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(wildcard tests/unit/test_sched*.c)): | $(POLICIES) $(test_policies)
