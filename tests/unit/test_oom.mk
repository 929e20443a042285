# SPDX-License-Identifier: Apache-2.0
#
# Programs in which allocations fail: calls from their own objects go through tests/unit/fail_alloc.h. Private, since what
# they depend on is linked without.

OOM_WRAP := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free
$(BUILD)/tests/unit/test_oom_supervisor: private LDFLAGS += $(OOM_WRAP)
