# SPDX-License-Identifier: Apache-2.0
$(BUILD)/tests/unit/test_ctl_channels: $(BUILD)/obj/client-lib/ctl/calibrate_verdict.o
