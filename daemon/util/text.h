/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Untrusted text that is shown to people
 *
 * Names of sessions and kernels, and messages that quote them, are bytes from clients. In a log they could begin a line
 * of their own, add a field to a journal entry, or send control sequences to the reader's terminal.
 */
#pragma once

/*
 * Makes the text safe to display, in place and without changing its length. These become '?': line breaks and other
 * bytes that control a terminal (C0, DEL, C1), marks that change the direction of writing, and invalid UTF-8.
 */
void ds_text_make_safe(char *text);
