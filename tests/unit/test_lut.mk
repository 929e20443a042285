$(BUILD)/tests/unit/test_lut_learn: $(BUILD)/obj/tests/support/lut_hash.o
