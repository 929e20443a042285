/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuRAND from the host: every kind of generator for the device, several distributions, seeds and offsets
 */
#include "libs.h"

#include <curand.h>
#include <stdio.h>

/* number of values per generator: even, and a multiple of the dimensions of quasi-random generators */
#define COUNT 30000

static void pseudo(const char *name, curandRngType_t type)
{
        float *out = libs_floats(COUNT, 0);
        curandGenerator_t generator;
        char text[64];

        CHECK(curandCreateGenerator(&generator, type));
        CHECK(curandSetPseudoRandomGeneratorSeed(generator, 1234));
        CHECK(curandGenerateUniform(generator, out, COUNT));
        snprintf(text, sizeof(text), "%s uniform", name);
        libs_say_floats(text, out, COUNT);
        CHECK(curandGenerateNormal(generator, out, COUNT, 1, 2));
        snprintf(text, sizeof(text), "%s normal", name);
        libs_say_floats(text, out, COUNT);
        CHECK(curandGeneratePoisson(generator, (unsigned int *)out, COUNT, 12));
        snprintf(text, sizeof(text), "%s poisson", name);
        libs_say(text, out, COUNT * sizeof(*out));
        CHECK(curandDestroyGenerator(generator));
        CHECK(cudaFree(out));
}

static void quasi(const char *name, curandRngType_t type)
{
        float *out = libs_floats(COUNT, 0);
        curandGenerator_t generator;

        CHECK(curandCreateGenerator(&generator, type));
        CHECK(curandSetQuasiRandomGeneratorDimensions(generator, 3));
        CHECK(curandGenerateUniform(generator, out, COUNT));
        libs_say_floats(name, out, COUNT);
        CHECK(curandDestroyGenerator(generator));
        CHECK(cudaFree(out));
}

int main(void)
{
        pseudo("xorwow", CURAND_RNG_PSEUDO_XORWOW);
        pseudo("mrg32k3a", CURAND_RNG_PSEUDO_MRG32K3A);
        pseudo("philox", CURAND_RNG_PSEUDO_PHILOX4_32_10);
        pseudo("mtgp32", CURAND_RNG_PSEUDO_MTGP32);
        pseudo("mt19937", CURAND_RNG_PSEUDO_MT19937);
        quasi("sobol", CURAND_RNG_QUASI_SOBOL32);
        quasi("scrambled sobol", CURAND_RNG_QUASI_SCRAMBLED_SOBOL32);
        return 0;
}
