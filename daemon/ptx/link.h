/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linking PTX: several texts become one module
 *
 * The texts were compiled separately (nvcc -rdc=true): they declare functions and variables of each other as .extern.
 * The result has every definition once, in an order in which each name is declared before its first use:
 *
 *   declarations of functions | variables | functions with bodies | aliases
 *
 * Names follow CUDA's rules. One strong definition per name; a strong definition replaces a weak one, and the first of
 * several weak ones stays. A name without .visible, .weak or .extern belongs to its text: if another text has the same
 * name it gets a new one. Texts of a library (on_demand) take part only if they define a name that is otherwise missing;
 * those that do not even contain a missing name are not parsed.
 *
 * Debug information (.file, .loc, .section) of linked texts is dropped, because it numbers files per text. A single
 * text is returned unchanged. Input may be hostile: it is parsed by the front end (ptx.h), and so is the result.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ds_ptx_link_input {
        const char *name; /* name for messages */
        const char *text;
        size_t length;
        bool on_demand; /* true: a member of a library */
};

/* Positive return codes of ds_ptx_link(); each comes with a message of one or more lines */
#define DS_PTX_LINK_E_INVALID 1   /* a text is not valid PTX */
#define DS_PTX_LINK_E_DUPLICATE 2 /* two strong definitions, or a declaration that does not fit its definition */
#define DS_PTX_LINK_E_UNDEFINED 3 /* a name has no definition */
#define DS_PTX_LINK_E_APART 4 /* the texts cannot be one text, for example because their targets exclude each other */

/*
 * Links n texts. limit: most bytes of each of the modules in memory. builtin: whether the device defines this function
 * itself. Returns 0 and *ret_text (ds_free), -ENOMEM, or a code of above.
 */
int ds_ptx_link(const struct ds_ptx_link_input *inputs, size_t n, size_t limit, bool (*builtin)(const char *name),
        char *message, size_t message_size, char **ret_text, size_t *ret_length);
