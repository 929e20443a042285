# SPDX-License-Identifier: Apache-2.0
#
# Policies that only tests load: rules of published systems in miniature, dice, and ones that the host must refuse; and
# one of the real ones, so that a test finds all that it switches between in one folder.

test_policies := $(patsubst tests/policies/%.c,$(BUILD)/tests/policies/%.so,$(wildcard tests/policies/*.c)) \
	$(BUILD)/tests/policies/orion.so
$(BUILD)/tests/policies/%.so: $(BUILD)/obj/tests/policies/%.o
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -shared -o $@ $<
$(BUILD)/tests/policies/orion.so: $(BUILD)/policies/orion.so
	@mkdir -p $(@D)
	cp $< $@
$(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(wildcard tests/unit/test_sched*.c)): | $(POLICIES) $(test_policies)
