/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/validate_internal.h"

void ds_ptx_check_modifiers(struct ds_ptx_check *c)
{
}
