/* SPDX-License-Identifier: Apache-2.0 */
/* Device-side assert: it holds in one launch and fails in the other. */
#include <cassert>

extern "C" __global__ void assert_below(const int *in, int limit, int *out)
{
        int v = in[threadIdx.x];

        assert(v < limit);
        out[threadIdx.x] = v;
}
