/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel's fault, as one line on standard error
 *
 * CUDA tells a program only the number of the error: not the kernel, not the address. The daemon knows more.
 * The first call that returns the error of a fault prints it: NVIDIA's text and name of the error, then the kernel, and
 * on a simulated device address, block, thread and line of PTX. One line per fault: the next one can only follow after
 * the session was reset (the context was destroyed).
 *
 * Names of C++ kernels are demangled here, in the process whose kernel it is: the demangler needs exponential time for
 * some names, so the daemon must not call it for a client. It is libstdc++'s, which such programs usually load.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/control.h"
#include "core/internal.h"

#define LINE_MAX_BYTES 512u
#define NAME_MAX_BYTES 256u /* longer names are not demangled */

struct text {
        int error;
        const char *name, *text;
};

static const struct text texts[] = {
#define X(constant, value, text) {value, #constant, text},
#include "core/errors.def"
#undef X
};

/* numbers of the errors that end a context */
static const int faults[] = {700, 702, 710, 714, 715, 716, 717, 718, DSC__LAUNCH_FAILED};

static char *demangled(const char *name)
{
        void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
        char *(*demangle)(const char *, char *, size_t *, int *) = NULL;
        int status;
        if (library)
                *(void **)&demangle = dlsym(library, "__cxa_demangle");
        return demangle ? demangle(name, NULL, NULL, &status) : NULL;
}

void dsc_fault_words(const char *fault, char *ret, size_t size)
{
        const char *begin = strstr(fault, "_Z");
        char name[NAME_MAX_BYTES + 1], *words;
        const size_t n = begin ? strspn(begin, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$.") : 0;
        snprintf(ret, size, "%s", fault);
        if (!n || n > NAME_MAX_BYTES || (begin > fault && begin[-1] != ' '))
                return;
        snprintf(name, sizeof(name), "%.*s", (int)n, begin);
        words = demangled(name);
        if (words)
                snprintf(ret, size, "%.*s%.256s%s", (int)(begin - fault), fault, words, begin + n);
        free(words);
}

/* *ret: the daemon's text about the session's error; "" if the session has no error. */
static void ask(dsc_session *s, char *ret, size_t size)
{
        Detshare__Query query = DETSHARE__QUERY__INIT;
        Detshare__Request request = DSC__REQUEST(QUERY, query, &query);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        const int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_QUERY, &answer);
        if (r == 0) {
                snprintf(ret, size, "%s", answer.reply->query->fault);
                dsc__answer_clear(&answer);
        } else {
                snprintf(ret, size, "%s", dsc_message());
        }
}

/* Returns the text of a fault's error; NULL: the error is not a fault's. */
static const struct text *fault_text(int error)
{
        size_t i = 0, k = 0;
        while (i < sizeof(faults) / sizeof(faults[0]) && faults[i] != error)
                i++;
        while (k < sizeof(texts) / sizeof(texts[0]) && texts[k].error != error)
                k++;
        return i < sizeof(faults) / sizeof(faults[0]) && k < sizeof(texts) / sizeof(texts[0]) ? &texts[k] : NULL;
}

void dsc__fault(dsc_session *s, int error)
{
        char fault[LINE_MAX_BYTES] = "", words[LINE_MAX_BYTES];
        const struct text *text = fault_text(error);
        if (!text || atomic_exchange(&s->fault_told, true) || !dsc__notes())
                return;
        ask(s, fault, sizeof(fault));
        dsc_fault_words(fault, words, sizeof(words));
        fprintf(stderr, "detshare: %s (%s)%s%s\n", text->text, text->name, words[0] ? ": " : "", words);
}
