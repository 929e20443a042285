# SPDX-License-Identifier: Apache-2.0
$(BUILD)/tests/unit/test_worker_policy: | $(BUILD)/tests/policies/probe.so
