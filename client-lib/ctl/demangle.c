/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/demangle.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/limited.h"

#define NAME_MAX_BYTES CTL_LIMITED_BYTES
/* limit for references() of a name: each can double the length of the demangled name, which then has at most some
 * MiB */
#define REFERENCES_MAX 8

/* function of libstdc++; its header <cxxabi.h> is for C++ only */
char *__cxa_demangle(const char *mangled, char *buffer, size_t *length, int *status);

/* --- demangling --------------------------------------------------------------------------------------------------- */

/*
 * Demangles namespaces and name from a mangled name whose end was cut off: "_ZN2at6native6kernelI..." becomes
 * "at::native::kernel<...>". 0 if that fails.
 */
static int demangle_cut(const char *mangled, char *ret, size_t size)
{
        const char *at = mangled + 2;
        const int nested = *at == 'N';
        size_t n = 0;
        if (nested)
                for (at++; *at && strchr("rVKRO", *at); at++)
                        ;
        while (isdigit((unsigned char)*at) && (nested || !n)) {
                char *name;
                const unsigned long length = strtoul(at, &name, 10);
                if (length > strlen(name) || n >= size)
                        break;
                n += (size_t)snprintf(ret + n, size - n, "%s%.*s", n ? "::" : "", (int)length, name);
                at = name + length;
        }
        if (n && n < size && *at == 'I')
                snprintf(ret + n, size - n, "<...>");
        return n > 0;
}

/*
 * Returns an upper bound of the parts that repeat earlier parts of the name: substitutions (S_, S0_), template
 * arguments (T_, T0_) and pack expansions (Dp, sp). It is only a bound, because these letters may also be part of an
 * identifier.
 */
static size_t references(const char *mangled)
{
        size_t n = 0;
        for (const char *at = mangled; at[0] && at[1]; at++) {
                const int numbered = at[1] == '_' || isdigit((unsigned char)at[1]) || isupper((unsigned char)at[1]);
                n += (*at == 'S' || *at == 'T') && numbered;
                n += !strncmp(at, "Dp", 2) || !strncmp(at, "sp", 2) ? REFERENCES_MAX / 2 : 0;
        }
        return n;
}

/* ret: the demangled name; "" if the name cannot be demangled. */
static void demangle_whole(const char *mangled, char *ret, size_t size)
{
        int status = -1;
        char *demangled = __cxa_demangle(mangled, NULL, NULL, &status);
        snprintf(ret, size, "%s", demangled && !status ? demangled : "");
        free(demangled);
}

const char *ctl_demangle(const char *name, char *ret, size_t size)
{
        const int mangled = !strncmp(name, "_Z", 2);
        ret[0] = '\0';
        if (mangled && references(name) <= REFERENCES_MAX)
                demangle_whole(name, ret, size);
        else if (mangled)
                ctl_limited(demangle_whole, name, ret, size);
        if (!ret[0] && (!mangled || !demangle_cut(name, ret, size)))
                snprintf(ret, size, "%s", name);
        return ret;
}

int ctl_kernel_contains(const char *name, const char *text)
{
        char demangled[NAME_MAX_BYTES];
        return strstr(name, text) || strstr(ctl_demangle(name, demangled, sizeof(demangled)), text);
}

/* --- shortening --------------------------------------------------------------------------------------------------- */

/* 1: the parenthesis at `at` begins the parameters. Those within "<>", of "(anonymous namespace)" and of
 * "operator()" do not. */
static int begins_parameters(const char *name, const char *at)
{
        const int is_operator = at - name >= 8 && !strncmp(at - 8, "operator()", 10);
        return *at == '(' && strncmp(at, "(anonymous namespace)", 21) != 0 && !is_operator;
}

/* Removes parameters and return type from a name. Leaves a name with an operator like "<" as it is. */
static void cut_signature(char *name)
{
        int depth = 0;
        char *begin = name, *at;
        for (at = name; *at && !(depth == 0 && begins_parameters(name, at)); at++) {
                depth += (*at == '<' || *at == '(') - (*at == '>' || *at == ')');
                if (depth < 0)
                        return;
                if (*at == ' ' && depth == 0)
                        begin = at + 1;
        }
        if (depth || begin == at)
                return;
        *at = '\0';
        memmove(name, begin, strlen(begin) + 1);
}

/* Shortens template arguments: "f<a, b<c> >::g<d>" becomes "f<...>::g<...>". */
static void cut_templates(char *name)
{
        char short_name[NAME_MAX_BYTES];
        size_t n = 0;
        int depth = 0;
        for (const char *at = name; *at && n + 8 < sizeof(short_name); at++) {
                depth -= *at == '>';
                if (depth < 0)
                        return;
                if (depth == 0)
                        short_name[n++] = *at;
                if (*at == '<' && depth++ == 0) {
                        memcpy(short_name + n, "...", 3);
                        n += 3;
                }
        }
        short_name[n] = '\0';
        strcpy(name, short_name);
}

/* Shortens namespaces to at most `most` characters: "at::native::f" becomes "...::f", or "...::native::f" if that
 * fits. */
static void cut_namespaces(char *name, size_t most)
{
        char *rest = name;
        for (char *at = strstr(name, "::"); at && strlen(rest) + 5 * (rest != name) > most; at = strstr(at + 2, "::"))
                rest = at + 2;
        if (rest == name)
                return;
        char short_name[NAME_MAX_BYTES + 8];
        snprintf(short_name, sizeof(short_name), "...::%s", rest);
        if (strlen(short_name) < strlen(name))
                strcpy(name, short_name);
}

const char *ctl_kernel(const char *name, size_t most, char *ret, size_t size)
{
        char text[NAME_MAX_BYTES];
        ctl_demangle(name, text, sizeof(text));
        if (strcmp(text, name) != 0)
                cut_signature(text);
        if (strlen(text) > most)
                cut_templates(text);
        if (strlen(text) > most)
                cut_namespaces(text, most);
        snprintf(ret, size, "%s", text);
        return ret;
}
