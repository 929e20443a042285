/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Built-in workloads, synthesised from measured quantiles
 *
 * The rows are the jobs of an evaluation on one H200 (PyTorch 2.11, half precision). Threads and registers per block
 * were not measured. They are set to 256 threads of 32 registers, of which an SM holds eight blocks. BERT is the
 * exception: its median of 132 blocks means that at least half of its kernels are persistent, so its longer half counts
 * as persistent.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/random.h"
#include "replay/workload.h"
#include "util/alloc.h"
#include "util/macro.h"

#define SMS 132
#define LINE_MAX 128
#define HEAD_MAX 512
#define Z99 2.3263478740408408 /* 99th percentile of the standard normal distribution */
#define BLOCKS_MAX 1000000.0

struct job {
        const char *name, *about;
        unsigned kernels;
        /* measured: busy time of a step, ms; quantiles and maximum of kernel durations, us */
        double busy_ms, p50_us, p99_us, max_us;
        unsigned blocks;  /* median of the kernels' blocks, measured */
        unsigned samples; /* samples that one step processes */
        int gemms;        /* 1: the longer half of the kernels is persistent */
};

static const struct job jobs[] = {
        {"resnet152-train", "ResNet-152 training, batch 64", 2425, 53.7, 12, 153, 1390, 1024, 64, 0},
        {"resnet152-b64", "ResNet-152 inference, batch 64", 995, 14.9, 6, 81, 210, 2048, 64, 0},
        {"densenet161-b64", "DenseNet-161 inference, batch 64", 1185, 20.5, 5, 116, 561, 588, 64, 0},
        {"bert-base-b64", "BERT-base inference, 64 x 128 tokens", 154, 3.5, 17, 58, 59, 132, 64, 1},
        {"llama-1b-prefill", "Llama-1B prefill, 4 x 2048 tokens", 662, 34.9, 30, 241, 1344, 8192, 8192, 0},
        {"llama-1b-decode", "Llama-1B decode, batch 4", 694, 2.1, 2.0, 10, 36, 16, 4, 0},
        {"resnet34-b1", "ResNet-34 inference, batch 1", 298, 0.82, 1.6, 14, 18, 56, 1, 0},
        {"mobilenetv3-b1", "MobileNetV3 inference, batch 1", 298, 0.57, 1.5, 7, 9, 21, 1, 0},
        {"efficientnet-b0-b1", "EfficientNet-B0 inference, batch 1", 375, 0.76, 1.8, 7, 9, 15, 1, 0},
        {"mobilevit-s-b1", "MobileViT-S inference, batch 1", 342, 0.91, 2.2, 11, 44, 74, 1, 0},
        {"efficientformer-l1-b1", "EfficientFormer-L1 inference, batch 1", 312, 0.73, 2.1, 7, 8, 74, 1, 0},
};

const char *ds_replay_builtin(size_t n, const char **ret_about)
{
        if (n >= DS_ARRAY_SIZE(jobs))
                return NULL;
        *ret_about = jobs[n].about;
        return jobs[n].name;
}

/* The quantile of the standard normal distribution, by bisection of erfc: slow, and as exact as erfc. */
static double normal_quantile(double p)
{
        double low = -10, high = 10, middle;

        for (int i = 0; i < 60; i++) {
                middle = (low + high) / 2;
                if (erfc(-middle / sqrt(2)) / 2 < p)
                        low = middle;
                else
                        high = middle;
        }
        return (low + high) / 2;
}

/* Duration of the i-th kernel in order of duration, ns. */
static uint64_t job_ns(const struct job *job, unsigned i)
{
        double sigma = log(job->p99_us / job->p50_us) / Z99, us;

        us = job->p50_us * exp(sigma * normal_quantile((i + 0.5) / job->kernels));
        if (i == job->kernels - 1 || us > job->max_us)
                us = job->max_us;
        return (uint64_t)llround(us * 1000);
}

/* The longer kernels of a transformer are GEMMs of libraries: each block occupies an SM, and all blocks last until
 * the end. */
static int job_persistent(const struct job *job, uint64_t ns)
{
        return job->gemms && (double)ns >= job->p50_us * 1000;
}

static unsigned job_blocks(const struct job *job, uint64_t ns)
{
        double blocks = job->blocks * (double)ns / (job->p50_us * 1000);

        if (job_persistent(job, ns))
                return SMS;
        return blocks < 1 ? 1 : blocks > BLOCKS_MAX ? (unsigned)BLOCKS_MAX : (unsigned)lround(blocks);
}

static void shuffle(uint64_t *values, unsigned n)
{
        uint64_t state = 1, swap;
        unsigned k;

        for (unsigned i = n; i > 1; i--) {
                k = (unsigned)(ds_replay_random(&state) % i);
                swap = values[i - 1];
                values[i - 1] = values[k];
                values[k] = swap;
        }
}

static size_t job_print(const struct job *job, const uint64_t *ns, uint64_t sum, char *text)
{
        char *at = text;
        unsigned threads, registers;

        at += sprintf(at,
                "%s %d\n# %s: %u kernels in a step, %.2f ms of them here, %.2f ms measured\n"
                "name %s\nsource synthesised from quantiles measured on an H200\ngpu h200\nsms %d\nsamples %u\n",
                SIM_PROFILE_MAGIC, SIM_PROFILE_VERSION, job->about, job->kernels, (double)sum / 1e6, job->busy_ms,
                job->name, SMS, job->samples);
        for (unsigned i = 0; i < job->kernels; i++) {
                threads = job_persistent(job, ns[i]) ? 384 : 256;
                registers = job_persistent(job, ns[i]) ? 168 : 32;
                at += sprintf(at, "kernel k%u grid=%u block=%u regs=%u ns=%llu\n", i, job_blocks(job, ns[i]), threads,
                        registers, (unsigned long long)ns[i]);
        }
        return (size_t)(at - text);
}

static char *job_text(const struct job *job)
{
        ds_cleanup(ds_freep) uint64_t *ns = NULL;
        uint64_t sum = 0;
        char *text;

        ns = ds_alloc0(job->kernels, sizeof(*ns));
        text = ds_alloc(HEAD_MAX + (size_t)job->kernels * LINE_MAX);
        if (!ns || !text)
                return ds_free(text);
        for (unsigned i = 0; i < job->kernels; i++)
                sum += ns[i] = job_ns(job, i);
        shuffle(ns, job->kernels);
        job_print(job, ns, sum, text);
        return text;
}

char *ds_replay_synthesise(const char *name, int *ret_known)
{
        *ret_known = 0;
        for (size_t i = 0; i < DS_ARRAY_SIZE(jobs); i++)
                if (!strcmp(jobs[i].name, name)) {
                        *ret_known = 1;
                        return job_text(&jobs[i]);
                }
        return NULL;
}
