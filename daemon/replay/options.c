/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsing the command line
 */
#include "replay/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define DURATION_MAX_S 31536000.0 /* longest virtual time, s: a year */

const char ds_replay_usage[] =
        "usage: detshare-replay [OPTION...] --ls WORKLOAD@ARRIVALS[,KEY=VALUE...] [--be WORKLOAD[,KEY=VALUE...]] ...\n"
        "       detshare-replay --list | --workload NAME | --convert TABLE.csv\n"
        "\n"
        "Replays kernel durations on a simulated GPU under the daemon's scheduler and policies: hours in seconds.\n"
        "\n"
        "  --device sim:MODEL       the GPU (default sim:h200)\n"
        "  --policy NAME[,K=V...]   the policy (default multistream)\n"
        "  --compare P1,P2,...      several policies, each followed by its K=V: one table\n"
        "  --policy-dir DIR         search DIR for policies first; may be repeated\n"
        "  --ls SESSION             a latency-sensitive session; may be repeated\n"
        "  --be SESSION             a best-effort session; may be repeated\n"
        "  --duration TIME          virtual time, e.g. 3600s, 90min, 1h (default 60s)\n"
        "  --seed N                 seed of random arrivals (default 1)\n"
        "  --profiled               kernels are known to the policy from the start, as after detsharectl profile\n"
        "  --transform              long kernels of best-effort sessions can be evicted at the end of their blocks\n"
        "  --channels N             simulate kernels block by block, with L2 and memory channels; while both classes "
        "have\n"
        "                           work, memory-bound BE kernels use N channels and LS kernels the others; 0: all\n"
        "  --trace FILE             write where and when each kernel ran (.json: Chrome trace events)\n"
        "  --json                   results as JSON\n"
        "  --latencies              JSON with the latency of each request\n"
        "  --no-alone               do not run each session alone for comparison\n"
        "  --list                   print the built-in workloads\n"
        "  --workload NAME          print a built-in workload as a profile\n"
        "  --convert TABLE.csv      print a profiler's table of kernels as a profile\n"
        "  --help, --version\n"
        "\n"
        "WORKLOAD is a built-in one, a profile, or a table (.csv); A+B is one after the other. ARRIVALS is\n"
        "poisson:RATE, uniform:RATE, closed, or a file (DISB, Apollo, Azure LLM, seconds). KEY is name, slo (a time,\n"
        "or a factor such as 1.5x), stated (1: the session states arrivals), think (time from a result to the next\n"
        "request, closed LS sessions), id (task of a DISB file), speed (of a trace), queue (operations), sm_percent.\n";

static int usage(char *message, size_t message_size, const char *fmt, ...) ds_printf(3, 4);
static int usage(char *message, size_t message_size, const char *fmt, ...)
{
        va_list args;

        va_start(args, fmt);
        vsnprintf(message, message_size, fmt, args);
        va_end(args);
        return DS_REPLAY_E_USAGE;
}

/* --- values --- */

/* Read a time: "20ms", "1.5s", "90min", "2h"; a number without a unit is seconds. Return false if the text is no
 * time. */
static int read_time(const char *text, uint64_t *ret_ns)
{
        static const struct {
                const char *unit;
                double ns;
        } units[] = {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}, {"min", 60e9}, {"h", 3600e9}};
        char *end;
        double value = strtod(text, &end);

        for (size_t i = 0; end != text && i < DS_ARRAY_SIZE(units); i++) {
                if (strcmp(end, units[i].unit) != 0)
                        continue;
                if (!(value > 0) || value * units[i].ns > DURATION_MAX_S * 1e9 || value * units[i].ns < 1)
                        return 0;
                *ret_ns = (uint64_t)llround(value * units[i].ns);
                return 1;
        }
        return 0;
}

static int read_count(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
        char *end;

        errno = 0;
        *ret = strtoull(text, &end, 10);
        return !errno && isdigit((unsigned char)*text) && !*end && *ret >= min && *ret <= max;
}

/* --- policies --- */

/* Read a list "P1,a=1,P2" of policy names, each followed by its parameters. */
static int read_policies(struct ds_replay_options *o, const char *text, int several, char *message, size_t size)
{
        char *next = ds_strdup(text), *first = next, *word;
        struct ds_replay_policy *policy = NULL;
        int r = next ? 0 : -ENOMEM;

        for (uint32_t i = 0; i < o->n_policies; i++)
                ds_free(o->policies[i].text);
        o->n_policies = 0;
        while (!r && (word = strsep(&next, ","))) {
                if (!*word || (strchr(word, '=') && !policy)) {
                        r = usage(message, size, "'%.60s': not NAME[,KEY=VALUE...]", text);
                } else if (strchr(word, '=') && policy->n_params < DS_REPLAY_PARAMS_MAX) {
                        policy->params[policy->n_params++] = word;
                } else if (strchr(word, '=') || o->n_policies == DS_REPLAY_POLICIES_MAX || (policy && !several)) {
                        r = usage(message, size, "'%.60s': %s", text,
                                policy && !several ? "one policy, --compare takes several" : "too many");
                } else {
                        policy = &o->policies[o->n_policies++];
                        *policy = (struct ds_replay_policy){.name = word};
                }
        }
        for (uint32_t i = 0; !r && i < o->n_policies; i++) {
                policy = &o->policies[i];
                word = i + 1 < o->n_policies ? o->policies[i + 1].name - 1 : first + strlen(text);
                policy->text = ds_strndup(text + (policy->name - first), (size_t)(word - policy->name));
                r = policy->text ? 0 : -ENOMEM;
        }
        ds_free(o->policy_words);
        o->policy_words = first;
        return r;
}

/* --- sessions --- */

static int workload_get(struct ds_replay_options *o, const char *name, char *message, size_t size,
        const struct ds_replay_workload **ret)
{
        struct ds_replay_workload *workload = NULL;
        int r;

        for (uint32_t i = 0; i < o->n_workloads; i++)
                if (!strcmp(o->workload_names[i], name)) {
                        *ret = o->workloads[i];
                        return 0;
                }
        r = ds_replay_workload_open(name, o->sms, message, size, &workload);
        if (r)
                return ds_error_trace(r);
        o->workloads[o->n_workloads] = workload;
        o->workload_names[o->n_workloads++] = name;
        *ret = workload;
        return 0;
}

struct session_words {
        char *workload, *second, *arrivals, *id;
        double speed;
};

static int name_ok(const char *name)
{
        size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-");

        return n && !name[n] && n < sizeof(((struct ds_replay_session *)NULL)->name);
}

static int session_key(
        struct ds_replay_session *session, struct session_words *words, char *word, char *message, size_t size)
{
        char *value = strchr(word, '='), *end;
        uint64_t number;

        if (!value)
                return usage(message, size, "'%.60s': not KEY=VALUE", word);
        *value++ = 0;
        if (!strcmp(word, "name") && name_ok(value)) {
                memcpy(session->name, value, strlen(value) + 1);
        } else if (!strcmp(word, "slo") && (!ds_slo_parse(value, &session->slo_ns, &session->slo_permille) ||
                                                   read_time(value, &session->slo_ns))) {
                return 0;
        } else if (!strcmp(word, "stated") && read_count(value, 0, 1, &number)) {
                session->states_arrivals = number != 0;
        } else if (!strcmp(word, "think") && read_time(value, &session->think_ns)) {
                return 0;
        } else if (!strcmp(word, "id")) {
                words->id = value;
        } else if (!strcmp(word, "speed")) {
                words->speed = strtod(value, &end);
                if (*end || end == value || !(words->speed > 1e-6 && words->speed < 1e6))
                        return usage(message, size, "speed=%.40s: not a factor", value);
        } else if (!strcmp(word, "queue") && read_count(value, 1, DS_REPLAY_QUEUE_MAX, &number)) {
                session->queue = (uint32_t)number;
        } else if (!strcmp(word, "sm_percent") && read_count(value, 1, 100, &number)) {
                session->sm_percent = (uint32_t)number;
        } else if (!strcmp(word, "name") || !strcmp(word, "slo") || !strcmp(word, "queue") ||
                   !strcmp(word, "sm_percent") || !strcmp(word, "stated") || !strcmp(word, "think")) {
                return usage(message, size, "%.20s=%.40s: not a valid value", word, value);
        } else {
                return usage(message, size,
                        "%.40s: unknown key, the keys are name, slo, stated, think, id, speed, queue, sm_percent",
                        word);
        }
        return 0;
}

static int session_words(
        struct ds_replay_session *session, char *text, struct session_words *words, char *message, size_t size)
{
        static char closed[] = "closed";
        char *next = text;
        int r = 0;

        *words = (struct session_words){.workload = strsep(&next, ","), .speed = 1};
        while (!r && next)
                r = session_key(session, words, strsep(&next, ","), message, size);
        if (r)
                return r;
        words->arrivals = strchr(words->workload, '@');
        if (words->arrivals)
                *words->arrivals++ = 0;
        else if (session->class_ == DETSHARE_CLASS_BE)
                words->arrivals = closed;
        if (!words->arrivals || !*words->arrivals || !*words->workload)
                return usage(message, size, "'%.60s': not WORKLOAD@ARRIVALS", words->workload);
        if (session->think_ns && session->class_ != DETSHARE_CLASS_LS)
                return usage(message, size, "think: only for latency-sensitive sessions, not for best-effort ones");
        if (session->think_ns && strcmp(words->arrivals, "closed"))
                return usage(message, size,
                        "think: only for latency-sensitive sessions with arrivals 'closed', not '%.40s'",
                        words->arrivals);
        words->second = strchr(words->workload, '+');
        if (words->second)
                *words->second++ = 0;
        return 0;
}

/* A session without a name gets the last part of the workload's path and a number. */
static void session_name(struct ds_replay_options *o, struct ds_replay_session *session, const char *workload)
{
        const char *slash = strrchr(workload, '/'), *base = slash ? slash + 1 : workload;
        size_t n = 0;

        for (; n < sizeof(session->name) - 8 && base[n]; n++)
                session->name[n] = isalnum((unsigned char)base[n]) || strchr("._-", base[n]) ? base[n] : '_';
        session->name[n] = 0;
        for (uint32_t i = 0; i < o->n_sessions; i++)
                if (!strcmp(o->sessions[i].name, session->name)) {
                        snprintf(session->name + n, sizeof(session->name) - n, "#%u", o->n_sessions + 1);
                        return;
                }
}

static int read_session(struct ds_replay_options *o, char *text, enum detshare_class class_, char *message, size_t size)
{
        struct ds_replay_session *session = &o->sessions[o->n_sessions];
        struct session_words words;
        uint64_t seed;
        int r;

        if (o->n_sessions == DS_REPLAY_SESSIONS_MAX)
                return usage(message, size, "more than %u sessions", DS_REPLAY_SESSIONS_MAX);
        *session = (struct ds_replay_session){.class_ = class_, .queue = DS_REPLAY_QUEUE, .sm_percent = 100};
        r = session_words(session, text, &words, message, size);
        if (!r)
                r = workload_get(o, words.workload, message, size, &session->workload[0]);
        if (!r && words.second)
                r = workload_get(o, words.second, message, size, &session->workload[1]);
        if (r)
                return ds_error_trace(r);
        if (!session->name[0])
                session_name(o, session, words.workload);
        /* each session has a seed of its own, so that the sessions' requests do not arrive at the same times */
        seed = o->seed * 1000003 + o->n_sessions;
        r = ds_replay_arrivals_open(words.arrivals, words.id, words.speed, seed, message, size, &session->arrivals);
        if (r)
                return ds_error_trace(r);
        o->n_sessions++;
        return 0;
}

/* --- the command line --- */

enum {
        OPT_DEVICE = 256,
        OPT_POLICY,
        OPT_COMPARE,
        OPT_POLICY_DIR,
        OPT_LS,
        OPT_BE,
        OPT_DURATION,
        OPT_SEED,
        OPT_PROFILED,
        OPT_TRANSFORM,
        OPT_CHANNELS,
        OPT_TRACE,
        OPT_JSON,
        OPT_LATENCIES,
        OPT_NO_ALONE,
        OPT_LIST,
        OPT_WORKLOAD,
        OPT_CONVERT,
        OPT_HELP,
        OPT_VERSION,
};

static const struct option long_options[] = {
        {"device", required_argument, NULL, OPT_DEVICE},
        {"policy", required_argument, NULL, OPT_POLICY},
        {"compare", required_argument, NULL, OPT_COMPARE},
        {"policy-dir", required_argument, NULL, OPT_POLICY_DIR},
        {"ls", required_argument, NULL, OPT_LS},
        {"be", required_argument, NULL, OPT_BE},
        {"duration", required_argument, NULL, OPT_DURATION},
        {"seed", required_argument, NULL, OPT_SEED},
        {"profiled", no_argument, NULL, OPT_PROFILED},
        {"transform", no_argument, NULL, OPT_TRANSFORM},
        {"channels", required_argument, NULL, OPT_CHANNELS},
        {"trace", required_argument, NULL, OPT_TRACE},
        {"json", no_argument, NULL, OPT_JSON},
        {"latencies", no_argument, NULL, OPT_LATENCIES},
        {"no-alone", no_argument, NULL, OPT_NO_ALONE},
        {"list", no_argument, NULL, OPT_LIST},
        {"workload", required_argument, NULL, OPT_WORKLOAD},
        {"convert", required_argument, NULL, OPT_CONVERT},
        {"help", no_argument, NULL, OPT_HELP},
        {"version", no_argument, NULL, OPT_VERSION},
        {},
};

/* Process an option with a value. Sessions are only stored, because later options may affect them. */
static int read_option(struct ds_replay_options *o, int opt, char *message, size_t size)
{
        switch (opt) {
        case OPT_DEVICE:
                o->device = optarg;
                return 0;
        case OPT_POLICY:
        case OPT_COMPARE:
                return read_policies(o, optarg, opt == OPT_COMPARE, message, size);
        case OPT_POLICY_DIR:
                if (o->n_policy_dirs == DS_POLICY_DIRS_MAX)
                        return usage(message, size, "--policy-dir %.40s: more than 8 directories", optarg);
                o->policy_dirs[o->n_policy_dirs++] = optarg;
                return 0;
        case OPT_DURATION:
                return read_time(optarg, &o->duration_ns)
                               ? 0
                               : usage(message, size, "--duration %.40s: not a time of at most a year", optarg);
        case OPT_SEED:
                return read_count(optarg, 0, UINT64_MAX - 1, &o->seed)
                               ? 0
                               : usage(message, size, "--seed %.40s: not a number", optarg);
        case OPT_PROFILED:
                o->profiled = 1;
                return 0;
        case OPT_TRANSFORM:
                o->transform = 1;
                return 0;
        case OPT_CHANNELS:
                o->blocks = 1;
                return read_count(optarg, 0, DS_REPLAY_CHANNELS_MAX - 1, &o->be_channels)
                               ? 0
                               : usage(message, size, "--channels %.40s: not a number of channels", optarg);
        case OPT_TRACE:
                o->trace = optarg;
                return 0;
        case OPT_JSON:
                o->json = 1;
                return 0;
        case OPT_LATENCIES:
                o->json = o->latencies = 1;
                return 0;
        case OPT_NO_ALONE:
                o->alone = 0;
                return 0;
        case OPT_LIST:
        case OPT_WORKLOAD:
        case OPT_CONVERT:
        case OPT_HELP:
        case OPT_VERSION:
                o->mode = opt == OPT_LIST       ? DS_REPLAY_MODE_LIST
                          : opt == OPT_WORKLOAD ? DS_REPLAY_MODE_WORKLOAD
                          : opt == OPT_CONVERT  ? DS_REPLAY_MODE_CONVERT
                          : opt == OPT_HELP     ? DS_REPLAY_MODE_HELP
                                                : DS_REPLAY_MODE_VERSION;
                o->argument = optarg;
                return 0;
        case ':':
                return usage(message, size, "%.40s: an argument is missing", o->argv[optind - 1]);
        default:
                return usage(message, size, "%.40s: no such option", o->argv[optind - 1]);
        }
}

static int device_sms(struct ds_replay_options *o, char *message, size_t size)
{
        const char *rest = NULL;
        const struct ds_device_ops *ops = ds_device_find(o->device, &rest);
        ds_device *device = NULL;

        if (!ops || strcmp(ops->name, "sim") != 0)
                return usage(message, size, "--device %.40s: not a simulated GPU, as sim:h200 is", o->device);
        if (ops->open(rest, &device))
                return DS_REPLAY_E_USAGE; /* the device has printed the error already */
        o->sms = ops->info(device)->n_sms;
        ops->close(device);
        return 0;
}

int ds_replay_options_read(struct ds_replay_options *o, int argc, char **argv, char *message, size_t message_size)
{
        int opt, r = 0;

        *o = (struct ds_replay_options){
                .device = "sim:h200", .alone = 1, .seed = 1, .duration_ns = 60 * DS_NS_PER_S, .argv = argv};
        opterr = 0;
        optind = 1;
        while (!r && (opt = getopt_long(argc, argv, ":", long_options, NULL)) != -1)
                if (opt != OPT_LS && opt != OPT_BE)
                        r = read_option(o, opt, message, message_size);
        if (!r && optind < argc)
                r = usage(message, message_size, "'%.40s': not an option", argv[optind]);
        if (!r && !o->n_policies)
                r = read_policies(o, "multistream", 0, message, message_size);
        if (!r && (o->mode == DS_REPLAY_MODE_RUN || o->mode == DS_REPLAY_MODE_CONVERT))
                r = device_sms(o, message, message_size);
        optind = 1;
        while (!r && o->mode == DS_REPLAY_MODE_RUN && (opt = getopt_long(argc, argv, ":", long_options, NULL)) != -1)
                if (opt == OPT_LS || opt == OPT_BE)
                        r = read_session(o, optarg, opt == OPT_LS ? DETSHARE_CLASS_LS : DETSHARE_CLASS_BE, message,
                                message_size);
        if (!r && o->mode == DS_REPLAY_MODE_RUN && !o->n_sessions)
                r = usage(message, message_size, "no sessions: name one with --ls or --be");
        return r;
}

void ds_replay_options_free(struct ds_replay_options *o)
{
        for (uint32_t i = 0; i < o->n_policies; i++)
                ds_free(o->policies[i].text);
        for (uint32_t i = 0; i < o->n_sessions; i++)
                ds_replay_arrivals_free(o->sessions[i].arrivals);
        for (uint32_t i = 0; i < o->n_workloads; i++)
                ds_replay_workload_free(o->workloads[i]);
        ds_free(o->policy_words);
}
