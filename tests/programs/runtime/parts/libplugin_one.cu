/* SPDX-License-Identifier: Apache-2.0 */
#define BEGIN 100
#include "plugin.h"
