/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/options.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/listen.h"

const char sv_usage[] =
        "usage: detshare-serve PACK [OPTION...]\n"
        "Runs a model pack under DetShare, or natively, and says how long requests take.\n"
        "\n"
        "What is served (without any of these: --requests 100):\n"
        "  --requests N        one request after the other in each instance, N in all\n"
        "  --seconds S         for so long; with --rate, how long requests arrive\n"
        "  --rate R            R requests per second arrive at random\n"
        "  --seed N            of these (1)\n"
        "  --trace FILE        requests arrive as FILE says: times in seconds, one per line, or a JSON list of gaps\n"
        "  --speed X           they arrive X times as fast\n"
        "  --listen SOCKET     others send requests to this Unix socket\n"
        "  --connections N     so many at once (64)\n"
        "  --wait S            a request that no instance has come to in S seconds is told so (60)\n"
        "  --orders            what standard input says, line by line: serve FILE, or loop SECONDS\n"
        "  --check             first compare the pack's cases with what its framework gave for them\n"
        "  --digest            first print the SHA-256 of each case's outputs\n"
        "  --kernels FILE      first measure each kernel, and write a line for each\n"
        "  --show              say what is in the pack, compare all files with their hashes, and use no GPU\n"
        "How:\n"
        "  --instances N       beside each other, with the same weights (1)\n"
        "  --native            directly on NVIDIA's driver\n"
        "  --as-found          on the libcuda.so.1 that the dynamic linker finds, whichever it is\n"
        "  --class ls|be       the session's class (DETSHARE_CLASS, else the pack's)\n"
        "  --slo-ms N          the latency objective of a request\n"
        "  --bimodal FILE|all  tensors of memory-bound kernels lie in two places; FILE: detsharectl profile PACK "
        "--json\n"
        "  --state WORD        of --bimodal: auto as the daemon says (default), alone, beside, turns\n"
        "  --name NAME         of the session, for people (the pack's model)\n"
        "  --no-hash           do not compare the files' bytes with their hashes\n"
        "  --latencies FILE    write a line per request: arrival, begin and end in ns\n"
        "  --json              print JSON\n"
        "  --version, --help\n";

int sv_options_wrong(const char *format, ...)
{
        va_list args;

        va_start(args, format);
        fputs("detshare-serve: ", stderr);
        (void)vfprintf(stderr, format, args);
        fputs(" (detshare-serve --help says more)\n", stderr);
        va_end(args);
        return SV_EXIT_USAGE;
}

static int parse_number(const char *option, uint64_t least, uint64_t most, uint64_t *ret)
{
        uint64_t value;

        if (sv_digits(optarg, most, &value) || value < least)
                return sv_options_wrong("--%s takes a number from %llu to %llu, not %s", option,
                        (unsigned long long)least, (unsigned long long)most, optarg);
        *ret = value;
        return -1;
}

static int parse_unsigned(const char *option, unsigned most, unsigned *ret)
{
        uint64_t value = *ret;
        int code = parse_number(option, 1, most, &value);

        *ret = (unsigned)value;
        return code;
}

static int parse_real(const char *option, double least, double most, double *ret)
{
        char *end;
        double value = strtod(optarg, &end);

        if (end == optarg || *end || !(value >= least) || !(value <= most))
                return sv_options_wrong("--%s takes a number from %g to %g, not %s", option, least, most, optarg);
        *ret = value;
        return -1;
}

static int parse_class(struct sv_options *o)
{
        if (strcmp(optarg, "ls") != 0 && strcmp(optarg, "be") != 0)
                return sv_options_wrong("--class is ls or be, not %s", optarg);
        o->class_ = optarg;
        return -1;
}

static int parse_name(struct sv_options *o)
{
        if (strlen(optarg) > 63)
                return sv_options_wrong("--name takes at most 63 bytes");
        o->name = optarg;
        return -1;
}

static int parse_state(struct sv_options *o)
{
        static const char *const words[] = {"auto", "alone", "beside", "turns"}; /* by enum sv_follow */

        for (int i = 0; i < 4; i++)
                if (!strcmp(optarg, words[i])) {
                        o->follow = (enum sv_follow)i;
                        return -1;
                }
        return sv_options_wrong("--state is auto, alone, beside or turns, not %s", optarg);
}

static int take(const char **to)
{
        *to = optarg;
        return -1;
}

static int take_flag(bool *flag)
{
        *flag = true;
        return -1;
}

static int parse_served(int c, struct sv_options *o)
{
        switch (c) {
        case 'n':
                return parse_number("requests", 1, UINT32_MAX, &o->requests);
        case 's':
                return parse_real("seconds", 1e-6, 1e7, &o->seconds);
        case 'r':
                return parse_real("rate", 1e-6, 1e6, &o->rate);
        case 'e':
                return parse_number("seed", 0, UINT64_MAX, &o->seed);
        case 't':
                return take(&o->trace);
        case 'x':
                return parse_real("speed", 1e-3, 1e6, &o->speed);
        case 'l':
                return take(&o->listen);
        case 'o':
                return parse_unsigned("connections", SV_CONNECTIONS_MAX, &o->connections);
        case 'w':
                return parse_real("wait", 1e-3, 1e6, &o->wait);
        default:
                return parse_unsigned("instances", SV_INSTANCES_MAX, &o->instances);
        }
}

static int parse_option(int c, char **argv, struct sv_options *o)
{
        switch (c) {
        case 'C':
                return take_flag(&o->check);
        case 'D':
                return take_flag(&o->digest);
        case 'S':
                return take_flag(&o->show);
        case 'N':
                return take_flag(&o->native);
        case 'F':
                return take_flag(&o->as_found);
        case 'O':
                return take_flag(&o->orders);
        case 'J':
                return take_flag(&o->json);
        case 'T':
                return take_flag(&o->trusted);
        case 'c':
                return parse_class(o);
        case 'm':
                return parse_name(o);
        case 'p':
                return parse_real("slo-ms", 1e-6, 1e9, &o->slo_ms);
        case 'f':
                return take(&o->latencies);
        case 'k':
                return take(&o->kernels);
        case 'b':
                return take(&o->bimodal);
        case 'a':
                return parse_state(o);
        case ':':
                return sv_options_wrong("option %s needs a value", argv[optind - 1]);
        case '?':
                return sv_options_wrong("unknown option %s", argv[optind - 1]);
        default:
                return parse_served(c, o);
        }
}

static enum sv_mode mode_of(const struct sv_options *o)
{
        if (o->listen)
                return SV_LISTEN;
        if (o->orders)
                return SV_ORDERS;
        if (o->trace)
                return SV_TRACE;
        return o->rate > 0 ? SV_RANDOM : SV_LOOP;
}

/* Refuses combinations of options that contradict each other. */
static int choose_mode(struct sv_options *o)
{
        const int others = (o->trace != NULL) + (o->rate > 0) + (o->listen != NULL) + o->orders;

        if (others > 1)
                return sv_options_wrong("--trace, --rate, --listen and --orders are not for one run");
        if (o->native && o->as_found)
                return sv_options_wrong("--native and --as-found are not for one run");
        if (o->bimodal && (o->native || o->as_found))
                return sv_options_wrong("--bimodal is for DetShare: natively there is no coloured memory");
        if (o->follow != SV_FOLLOW_DAEMON && !o->bimodal)
                return sv_options_wrong("--state goes with --bimodal");
        if (o->requests && others)
                return sv_options_wrong("--requests is for requests that come one after the other");
        o->mode = mode_of(o);
        if (o->seconds > 0 && o->mode != SV_LOOP && o->mode != SV_RANDOM)
                return sv_options_wrong("--seconds goes with --rate, or with none of what is served");
        if (o->mode == SV_RANDOM && !(o->seconds > 0))
                return sv_options_wrong("--rate needs --seconds");
        if (o->mode != SV_LOOP || o->requests || o->seconds > 0)
                return -1;
        if (o->check || o->digest || o->kernels)
                o->mode = SV_LOOK;
        else
                o->requests = 100;
        return -1;
}

static int take_pack(int argc, char **argv, struct sv_options *o)
{
        if (optind >= argc)
                return sv_options_wrong("which pack?");
        if (optind + 1 < argc)
                return sv_options_wrong("%s: one pack is enough", argv[optind + 1]);
        o->pack = argv[optind];
        return choose_mode(o);
}

int sv_options_parse(int argc, char **argv, struct sv_options *ret)
{
        static const struct option options[] = {
                {"requests", required_argument, NULL, 'n'},
                {"seconds", required_argument, NULL, 's'},
                {"rate", required_argument, NULL, 'r'},
                {"seed", required_argument, NULL, 'e'},
                {"trace", required_argument, NULL, 't'},
                {"speed", required_argument, NULL, 'x'},
                {"listen", required_argument, NULL, 'l'},
                {"connections", required_argument, NULL, 'o'},
                {"wait", required_argument, NULL, 'w'},
                {"check", no_argument, NULL, 'C'},
                {"digest", no_argument, NULL, 'D'},
                {"kernels", required_argument, NULL, 'k'},
                {"bimodal", required_argument, NULL, 'b'},
                {"state", required_argument, NULL, 'a'},
                {"show", no_argument, NULL, 'S'},
                {"instances", required_argument, NULL, 'i'},
                {"orders", no_argument, NULL, 'O'},
                {"native", no_argument, NULL, 'N'},
                {"as-found", no_argument, NULL, 'F'},
                {"class", required_argument, NULL, 'c'},
                {"slo-ms", required_argument, NULL, 'p'},
                {"name", required_argument, NULL, 'm'},
                {"no-hash", no_argument, NULL, 'T'},
                {"latencies", required_argument, NULL, 'f'},
                {"json", no_argument, NULL, 'J'},
                {"version", no_argument, NULL, 'V'},
                {"help", no_argument, NULL, 'h'},
                {NULL, 0, NULL, 0},
        };
        int c;

        *ret = (struct sv_options){.instances = 1, .connections = 64, .wait = 60, .seed = 1, .speed = 1};
        while ((c = getopt_long(argc, argv, ":h", options, NULL)) >= 0) {
                int code;

                if (c == 'h' || c == 'V') {
                        fputs(c == 'h' ? sv_usage : "detshare-serve " DETSHARE_VERSION "\n", stdout);
                        return SV_EXIT_OK;
                }
                code = parse_option(c, argv, ret);
                if (code >= 0)
                        return code;
        }
        return take_pack(argc, argv, ret);
}
