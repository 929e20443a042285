# SPDX-License-Identifier: Apache-2.0
#
# The test links an object of the client core that the library does not export.

$(BUILD)/tests/unit/test_mapped: $(BUILD)/obj/client-lib/core/mapped.o
