/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/detshare/params.h"

const struct detshare_policy_param detshare_params[PARAMS] = {
        {"slack_permille", "time that BE may cost a request without an objective, permille of its length", 20, 0,
                10000},
        {"attain_permille", "requests of a session with an objective that must meet it, permille", 990, 0, 1000},
        {"reserve_percent", "most SMs that BE leaves free during a request, percent of the GPU", 50, 1, 100},
        {"meet_permille",
                "largest share of an LS session's pauses that may end during a BE kernel on all SMs, permille", 333, 1,
                1000},
        {"starve_ms", "longest wait of a BE kernel for LS, ms", 50, 1, 100000},
        {"evict", "1: BE kernels that LS would wait for are evicted, where they can be; 0: never", 1, 0, 1},
        {"feel", "1: the measured times of requests decide whether BE runs beside them; 0: predictions alone decide", 1,
                0, 1},
        {"held_first", "1: BE is held during requests until its cost for them is known; 0: it starts at once", 1, 0, 1},
        {"explore_permille", "share of BE's time for measuring kernels on fewer SMs, permille", 10, 0, 1000},
        {"be_ahead_us", "time before the expected end of BE work at which the next is sent, us", 100, 0, 1000000},
};
