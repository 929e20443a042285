/* SPDX-License-Identifier: Apache-2.0 */
/* The host must refuse this shared object: it exports no policy. */
int detshare_policy_not(void);

__attribute__((__visibility__("default"))) int detshare_policy_not(void)
{
        return 0;
}
