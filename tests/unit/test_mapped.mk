# SPDX-License-Identifier: Apache-2.0
#
# A part of the client core that it does not export.

$(BUILD)/tests/unit/test_mapped: $(BUILD)/obj/client-lib/core/mapped.o
