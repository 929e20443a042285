# SPDX-License-Identifier: Apache-2.0
#
# Host objects and archives of separately compiled code.

CFLAGS_test_image_object := -DTEST_DIR='"$(BUILD)/ptx/sm_90/linked"'
$(BUILD)/tests/unit/test_image_object: | $(addprefix $(BUILD)/ptx/sm_90/linked/,callee.o libcallee.a callee.cubin liblong.a)
$(BUILD)/ptx/sm_90/linked/liblong.a: $(BUILD)/ptx/sm_90/linked/callee.o
	cp $< $(@D)/a_member_with_a_long_name.o
	rm -f $@ && ar rcs $@ $(@D)/a_member_with_a_long_name.o
