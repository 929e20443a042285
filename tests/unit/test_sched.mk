# SPDX-License-Identifier: Apache-2.0
#
# Policies that only tests load (a random one, and invalid ones that the host must refuse), beside all real ones:
# tests find in one folder every policy to which they switch.

test_policies := $(patsubst tests/policies/%.c,$(BUILD)/tests/policies/%.so,$(wildcard tests/policies/*.c))
$(test_policies): $(BUILD)/tests/policies/%.so: $(BUILD)/obj/tests/policies/%.o
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -shared -o $@ $<
real_policies := $(filter-out $(test_policies),$(patsubst $(BUILD)/policies/%,$(BUILD)/tests/policies/%,$(POLICIES)))
$(real_policies): $(BUILD)/tests/policies/%.so: $(BUILD)/policies/%.so
	@mkdir -p $(@D)
	cp $< $@
$(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(wildcard tests/unit/test_sched*.c tests/unit/test_worker_policy.c \
	tests/unit/test_worker_random*.c)): | $(POLICIES) $(test_policies) \
	$(real_policies)
