/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of kernels: demangled, and short enough for tables
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "ctl/demangle.h"

/* A mangled kernel name from PyTorch's images. */
static const char fill[] =
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIiEESt5arrayIPcLm1EEEEviT0_T1_";

static const char *kernel(const char *name, size_t most)
{
        static char text[512];
        return ctl_kernel(name, most, text, sizeof(text));
}

static const char *demangled(const char *name)
{
        static char text[512];
        return ctl_demangle(name, text, sizeof(text));
}

Test(ctl_demangle, names_of_c_stay)
{
        cr_expect_str_eq(kernel("gemm", 56), "gemm");
        cr_expect_str_eq(demangled("gemm_kernel_0d1d2d"), "gemm_kernel_0d1d2d");
        cr_expect_str_eq(kernel("graph of 12 kernels", 56), "graph of 12 kernels");
        cr_expect_str_eq(kernel("", 56), "");
        cr_expect_str_eq(kernel("_Z", 56), "_Z");
        cr_expect_str_eq(kernel("_Z99", 56), "_Z99");
}

Test(ctl_demangle, names_of_cpp_are_whole)
{
        cr_expect_str_eq(demangled("_Z5saxpyifPKfPf"), "saxpy(int, float, float const*, float*)");
        cr_expect_str_eq(demangled(fill),
                "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, "
                "std::array<char*, 1ul> >(int, at::native::FillFunctor<int>, "
                "std::array<char*, 1ul>)");
}

Test(ctl_demangle, tables_have_no_parameters)
{
        cr_expect_str_eq(kernel("_Z5saxpyifPKfPf", 56), "saxpy");
        cr_expect_str_eq(kernel("_Z3addIfEvPT_i", 56), "add<float>", "nor a return type");
        cr_expect_str_eq(kernel("_ZN12_GLOBAL__N_13addEi", 56), "(anonymous namespace)::add");
        cr_expect_str_eq(kernel("_ZN1AclEi", 56), "A::operator()");
}

Test(ctl_demangle, long_names_are_cut_where_it_says_least)
{
        cr_expect_str_eq(kernel(fill, 56), "at::native::vectorized_elementwise_kernel<...>");
        cr_expect_str_eq(kernel(fill, 44), "...::vectorized_elementwise_kernel<...>");
        cr_expect_str_eq(kernel(fill, 10), "...::vectorized_elementwise_kernel<...>", "the name itself stays");
        cr_expect_str_eq(kernel("_ZN1aIiE1bIfEEvv", 4), "...::b<...>");
}

Test(ctl_demangle, of_names_that_were_cut_the_beginning_is_read)
{
        char cut[64];
        snprintf(cut, sizeof(cut), "%.60s", fill);
        cr_expect_str_eq(kernel(cut, 56), "at::native::vectorized_elementwise_kernel<...>");
        snprintf(cut, sizeof(cut), "%.20s", fill);
        cr_expect_str_eq(kernel(cut, 56), "at::native");
}

Test(ctl_demangle, filters_look_at_both_names)
{
        cr_expect(ctl_kernel_contains(fill, "FillFunctor<int>"));
        cr_expect(ctl_kernel_contains(fill, "_ZN2at6native"));
        cr_expect(ctl_kernel_contains("gemm", "em"));
        cr_expect_not(ctl_kernel_contains(fill, "gemm"));
}

/* Appends "S_I", n times the last substitution, and "E": that name is n times as long as the one before. */
static void append_level(char *name, size_t size, unsigned level, unsigned n)
{
        size_t at = strlen(name);
        at += (size_t)snprintf(name + at, size - at, "S_I");
        for (unsigned i = 0; i < n; i++)
                at += (size_t)snprintf(name + at, size - at, "S%c_", "0123456789ABCDEFGHIJ"[level]);
        snprintf(name + at, size - at, "E");
}

Test(ctl_demangle, names_that_would_be_gigabytes_stay, .timeout = 20)
{
        char name[256] = "_Z1f1AIiE";
        for (unsigned i = 0; i < 15; i++)
                append_level(name, sizeof(name), i, 4);
        cr_assert_lt(strlen(name), 250);
        for (int i = 0; i < 100; i++)
                cr_expect_str_eq(kernel(name, 56), "f");
}

Test(ctl_demangle, names_with_many_references_are_whole)
{
        char name[256] = "_Z1f1AIiE";
        for (unsigned i = 0; i < 9; i++)
                append_level(name, sizeof(name), i, 1);
        cr_expect_str_eq(demangled(name),
                "f(A<int>, A<A<int> >, A<A<A<int> > >, A<A<A<A<int> > > >, A<A<A<A<A<int> > > > >, "
                "A<A<A<A<A<A<int> > > > > >, A<A<A<A<A<A<A<int> > > > > > >, A<A<A<A<A<A<A<A<int> > > > > > > >, "
                "A<A<A<A<A<A<A<A<A<int> > > > > > > > >, A<A<A<A<A<A<A<A<A<A<int> > > > > > > > > >)");
}
