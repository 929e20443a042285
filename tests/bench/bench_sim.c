/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Speed of the simulation that replays profiles: simulated kernels per second of processor time, on one core
 *
 * Processor time of the process, so that other work on the machine matters little. First the device alone (launch to
 * completion), then whole simulations as detshare-replay runs them: a best-effort session alone; a latency-sensitive
 * one beside it under fifo, under multistream (the default) and under static; ten sessions; an hour of DISB's five
 * real-time tasks. The kernels of those tasks' models were not measured, so workloads of other models stand for them.
 * Figures depend on the machine; no figure is judged. Writes BUILD/bench-sim.json.
 *
 * usage: bench_sim BUILD [SECONDS of virtual time per simulation, default 30]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/device.h"
#include "replay/run.h"
#include "util/macro.h"

#define TARGET ">= 1000000"
#define DEVICE_KERNELS 3000000
#define AHEAD 64 /* queued launches per stream */

static const char *build;
static FILE *json;
static int n_figures;

static void figure(const char *name, const char *unit, const char *target, double value)
{
        printf("  %-56s %12.1f %-8s target %s\n", name, value, unit, target);
        (void)fflush(stdout);
        fprintf(json, "%s    {\"name\": \"%s\", \"value\": %.3f, \"unit\": \"%s\", \"target\": \"%s\"}",
                n_figures++ ? ",\n" : "", name, value, unit, target);
}

static double cpu_s(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void give_up(const char *message)
{
        fprintf(stderr, "bench_sim: %s\n", message);
        exit(1);
}

static struct ds_replay_workload *workload(const char *name)
{
        struct ds_replay_workload *w = NULL;
        char message[256] = "";

        if (ds_replay_workload_open(name, 132, message, sizeof(message), &w))
                give_up(message);
        return w;
}

/* --- the device alone --- */

struct feed {
        const struct ds_device_ops *ops;
        ds_device *device;
        struct ds_launch launches[4096];
        uint32_t n, next;
};

static void feed_launch(struct feed *feed, uint64_t token)
{
        if (feed->ops->launch(feed->device, &feed->launches[feed->next], token))
                give_up("a launch was refused");
        feed->next = feed->next + 1 < feed->n ? feed->next + 1 : 0;
}

static void feed_open(struct feed *feed, const struct ds_replay_workload *w)
{
        struct ds_tpc_mask mask = {.word = {UINT64_MAX, 3}};
        ds_device_module *module;
        char log[256];
        uint32_t rung;

        feed->n = w->profile->n_kernels;
        if (feed->ops->space_add(feed->device, 1) || feed->ops->rung_create(feed->device, &mask, &rung) ||
                feed->ops->module_load(feed->device, 1, w->text, w->size, log, sizeof(log), &module))
                give_up("the device refuses the workload");
        for (uint32_t i = 0; i < feed->n; i++) {
                feed->launches[i] =
                        (struct ds_launch){.space = 1, .kernel = feed->ops->kernel_at(module, i), .timed = 1};
                memcpy(feed->launches[i].grid, w->profile->kernels[i].grid, sizeof(feed->launches[i].grid));
                memcpy(feed->launches[i].block, w->profile->kernels[i].block, sizeof(feed->launches[i].block));
        }
}

static void bench_device(const char *name)
{
        static struct feed feed;
        struct ds_replay_workload *w = workload(name);
        struct ds_completion done[64];
        uint64_t ended = 0;
        const char *rest;
        double begin;
        char what[80];
        size_t n;

        feed = (struct feed){.ops = ds_device_find("sim:h200", &rest)};
        if (feed.ops->open("h200+timing", &feed.device))
                give_up("no device");
        feed_open(&feed, w);
        begin = cpu_s();
        for (uint64_t i = 0; i < AHEAD; i++)
                feed_launch(&feed, i);
        while (ended < DEVICE_KERNELS) {
                while ((n = feed.ops->poll(feed.device, done, DS_ARRAY_SIZE(done))))
                        for (size_t i = 0; i < n; i++, ended++)
                                feed_launch(&feed, done[i].token);
                (void)feed.ops->advance(feed.device, UINT64_MAX);
        }
        snprintf(what, sizeof(what), "device alone, %s", name);
        figure(what, "per s", TARGET, (double)ended / (cpu_s() - begin));
        feed.ops->close(feed.device);
        ds_replay_workload_free(w);
}

/* --- whole simulations --- */

struct load {
        struct ds_replay_session sessions[10];
        struct ds_replay_workload *workloads[10];
        struct ds_replay_config config;
};

static void load_add(struct load *load, const char *name, enum detshare_class class_, const char *rule, const char *id)
{
        uint32_t i = load->config.n_sessions++;
        char message[256] = "";

        load->workloads[i] = workload(name);
        load->sessions[i] = (struct ds_replay_session){
                .class_ = class_, .workload = {load->workloads[i]}, .queue = DS_REPLAY_QUEUE, .sm_percent = 100};
        snprintf(load->sessions[i].name, sizeof(load->sessions[i].name), "s%u", i);
        if (ds_replay_arrivals_open(rule, id, 1, i + 1, message, sizeof(message), &load->sessions[i].arrivals))
                give_up(message);
}

static double load_run(struct load *load, const char *policy, double seconds, double *ret_cpu_s)
{
        static struct ds_replay_result result;
        char dir[4096], message[256] = "";

        snprintf(dir, sizeof(dir), "%s/policies", build);
        load->config.device = "sim:h200";
        load->config.policy_dir = dir;
        load->config.policy_any_owner = 1;
        load->config.policy = policy;
        load->config.sessions = load->sessions;
        load->config.duration_ns = (uint64_t)(seconds * 1e9);
        if (ds_replay_run(&load->config, message, sizeof(message), &result))
                give_up(message);
        for (uint32_t i = 0; i < load->config.n_sessions; i++) {
                ds_replay_arrivals_free(load->sessions[i].arrivals);
                ds_replay_workload_free(load->workloads[i]);
        }
        *ret_cpu_s = result.cpu_s;
        return (double)result.kernels / result.cpu_s;
}

static void bench_pair(const char *policy, double seconds)
{
        struct load load = {};
        char what[80];
        double cpu;

        load_add(&load, "resnet34-b1", DETSHARE_CLASS_LS, "poisson:200", NULL);
        load_add(&load, "resnet152-train", DETSHARE_CLASS_BE, "closed", NULL);
        snprintf(what, sizeof(what), "scheduler and %s, ResNet-34 beside training", policy);
        figure(what, "per s", TARGET, load_run(&load, policy, seconds, &cpu));
}

/* Ten sessions that always compete for SMs. */
static void bench_crowd(double seconds)
{
        static const char *const names[] = {
                "resnet152-train", "densenet161-b64", "bert-base-b64", "llama-1b-decode", "resnet152-b64"};
        struct load load = {};
        double cpu;

        for (size_t i = 0; i < DS_ARRAY_SIZE(names); i++) {
                load_add(&load, "resnet34-b1", DETSHARE_CLASS_LS, "poisson:10", NULL);
                load_add(&load, names[i], DETSHARE_CLASS_BE, "closed", NULL);
        }
        figure("scheduler and multistream, ten competing sessions", "per s", TARGET,
                load_run(&load, "multistream", seconds, &cpu));
}

static void bench_disb(void)
{
        static const char *const tasks[][2] = {{"resnet152_rt", "resnet34-b1"},
                {"densenet201_rt", "efficientnet-b0-b1"}, {"vgg19_rt", "mobilenetv3-b1"},
                {"inceptionv3_rt", "mobilevit-s-b1"}, {"distilbert_rt", "efficientformer-l1-b1"}};
        struct load load = {};
        double cpu, rate;

        for (size_t i = 0; i < DS_ARRAY_SIZE(tasks); i++)
                load_add(&load, tasks[i][1], DETSHARE_CLASS_LS, "tests/data/disb_real.json", tasks[i][0]);
        rate = load_run(&load, "multistream", 3600, &cpu);
        figure("an hour of DISB's five real-time tasks", "s", "-", cpu);
        figure("of it, kernels", "per s", TARGET, rate);
}

int main(int argc, char **argv)
{
        double seconds = argc > 2 ? atof(argv[2]) : 30, cpu;
        struct load load = {};
        char path[4096];

        if (argc < 2)
                return 2;
        build = argv[1];
        snprintf(path, sizeof(path), "%s/bench-sim.json", build);
        json = fopen(path, "we");
        if (!json || !(seconds > 0))
                give_up("no place for the figures, or no seconds");
        printf("bench_sim: simulated kernels per second of processor time, on one core (sim)\n");
        fprintf(json, "{\n  \"device\": \"sim:h200+timing\",\n  \"simulated\": true,\n  \"figures\": [\n");
        bench_device("llama-1b-decode");
        bench_device("resnet152-train");
        load_add(&load, "resnet152-train", DETSHARE_CLASS_BE, "closed", NULL);
        figure("scheduler and fifo, training alone", "per s", TARGET, load_run(&load, "fifo", seconds, &cpu));
        bench_pair("fifo", seconds);
        bench_pair("multistream", seconds);
        bench_pair("static", seconds);
        bench_crowd(seconds);
        bench_disb();
        fprintf(json, "\n  ]\n}\n");
        if (fclose(json))
                give_up("the figures could not be written");
        printf("  written: %s\n", path);
        return 0;
}
