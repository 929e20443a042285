/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text of others that is shown to people
 *
 * Names of sessions and kernels, and messages that quote them, are bytes of clients. In a log they could begin a line
 * of their own, add a field to an entry of the journal, or tell the terminal of whoever reads it what to do.
 */
#pragma once

/*
 * Makes the text safe to show, in place and without changing its length: line breaks and all other bytes that a
 * terminal obeys (C0, DEL, C1), marks that change the direction of writing, and bytes that are not UTF-8 become '?'.
 */
void ds_text_make_safe(char *text);
