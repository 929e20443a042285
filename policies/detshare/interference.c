/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/detshare/interference.h"

#include "policies/stair.h"

#define INTERFERENCE_SAME 30u /* LS times beside BE that differ by at most this count as equal, permille */

static int interference_is_about(uint32_t be_load, uint32_t bound)
{
        return (be_load == DETSHARE_LOAD_COMPUTE) == (bound == DETSHARE_BOUND_COMPUTE);
}

/* The longest LS time beside BE kernels of this kind with so many resident blocks on so many SMs, permille of the
 * time alone; 0: not measured. */
static uint32_t interference_worst(
        const struct detshare_policy_config *config, uint32_t n_sms, uint32_t blocks, uint32_t bound)
{
        uint32_t worst = 0;

        for (uint32_t i = 0; i < config->n_interference; i++) {
                const struct detshare_interference *cell = &config->interference[i];

                if (cell->be_sms == n_sms && cell->be_blocks == blocks && interference_is_about(cell->be_load, bound) &&
                        cell->ls_permille > worst)
                        worst = cell->ls_permille;
        }
        return worst;
}

uint32_t interference_bound(
        const struct detshare_policy_config *config, uint32_t n_sms, uint32_t bound, uint32_t permille)
{
        uint32_t best = UINT32_MAX, most = 0;

        for (int pass = 0; pass < 2; pass++) {
                for (uint32_t i = 0; i < config->n_interference; i++) {
                        const struct detshare_interference *cell = &config->interference[i];
                        uint32_t worst;

                        if (cell->be_sms != n_sms || !interference_is_about(cell->be_load, bound))
                                continue;
                        worst = interference_worst(config, n_sms, cell->be_blocks, bound);
                        if (!pass)
                                best = worst < best ? worst : best;
                        else if (worst > permille && (best <= permille || !stair_same(worst, best, INTERFERENCE_SAME)))
                                continue;
                        else if (!cell->be_blocks)
                                return 0;
                        else
                                most = cell->be_blocks > most ? cell->be_blocks : most;
                }
        }
        return most;
}
