# SPDX-License-Identifier: Apache-2.0
CFLAGS_test_replay := -DTEST_DATA_DIR='"$(CURDIR)/tests/data"'
$(BUILD)/tests/unit/test_replay: | $(POLICIES)
