/* SPDX-License-Identifier: Apache-2.0 */
#define BEGIN 200
#include "plugin.h"
