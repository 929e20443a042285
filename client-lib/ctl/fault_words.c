/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Demangling of other programs' kernel names in the line about a fault
 */
#include "ctl/ctl.h"
#include "ctl/limited.h"

void ctl_fault_demangle(struct dsc_fault *fault)
{
        ctl_limited(dsc_fault_words, fault->words, fault->words, sizeof(fault->words));
}
