/* SPDX-License-Identifier: Apache-2.0 */
/* Refused: a shared object without a policy. */
int detshare_policy_not(void);

__attribute__((__visibility__("default"))) int detshare_policy_not(void)
{
        return 0;
}
