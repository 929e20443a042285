# SPDX-License-Identifier: Apache-2.0
$(BUILD)/tests/unit/test_ctl_channels: $(BUILD)/obj/client-lib/ctl/calibrate_verdict.o
$(BUILD)/tests/unit/test_ctl_demangle: $(addprefix $(BUILD)/obj/client-lib/ctl/,demangle.o limited.o)
$(BUILD)/tests/unit/test_ctl_demangle: DAEMON_LIBS += -lstdc++
$(BUILD)/tests/unit/test_timeline: $(addprefix $(BUILD)/obj/client-lib/ctl/,demangle.o limited.o)
$(BUILD)/tests/unit/test_timeline: DAEMON_LIBS += -lstdc++
$(BUILD)/tests/unit/test_ctl_screen: $(addprefix $(BUILD)/obj/client-lib/ctl/,screen.o table.o policy_text.o)
$(BUILD)/tests/unit/test_ctl_screen: DAEMON_LIBS += -lsmartcols
$(BUILD)/tests/unit/test_ctl_progress: $(BUILD)/obj/client-lib/ctl/progress.o
