/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "serve/model.h"

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void json_string(const char *name, const char *text)
{
        printf("\"%s\": \"", name);
        for (; *text; text++) {
                if ((unsigned char)*text < ' ')
                        printf("\\u%04x", (unsigned)*text);
                else
                        printf("%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
        }
        printf("\"");
}

static void json_times(const char *name, const struct sv_times *t)
{
        printf(", \"%s\": {\"mean\": %.3f, \"p50\": %.3f, \"p95\": %.3f, \"p99\": %.3f, \"max\": %.3f}", name,
                (double)t->mean / 1e3, (double)t->p50 / 1e3, (double)t->p95 / 1e3, (double)t->p99 / 1e3,
                (double)t->max / 1e3);
}

static uint64_t sum_cost(const struct sv_pack *pack, int flops)
{
        uint64_t sum = 0;

        for (uint32_t i = 0; i < pack->n_launches; i++)
                sum += flops ? pack->launches[i].flops : pack->launches[i].bytes;
        return sum;
}

static void json_tensors(const char *name, const struct sv_tensor *list, uint32_t n)
{
        printf(", \"%s\": [", name);
        for (uint32_t i = 0; i < n; i++) {
                printf("%s{", i ? ", " : "");
                json_string("name", list[i].name);
                printf(", \"type\": \"%s\", \"shape\": [", sv_type_name(list[i].type));
                for (uint32_t k = 0; k < list[i].n_dims; k++)
                        printf("%s%" PRIu64, k ? ", " : "", list[i].dims[k]);
                printf("], \"bytes\": %" PRIu64 "}", list[i].bytes);
        }
        printf("]");
}

static void json_pack(const struct sv_pack *pack)
{
        json_string("model", pack->model);
        printf(", \"batch\": %" PRIu64 ", \"pack_class\": \"%s\", \"arch\": %u, ", pack->batch,
                pack->class_ == SV_LS ? "ls" : "be", pack->arch);
        json_string("framework", pack->framework);
        printf(", ");
        json_string("compiler", pack->compiler);
        printf(", \"kernels\": %u, \"launches\": %u, \"cases\": %u, \"weights_bytes\": %" PRIu64
               ", \"arena_bytes\": %" PRIu64 ", \"flops\": %" PRIu64 ", \"least_bytes\": %" PRIu64,
                pack->n_kernels, pack->n_launches, pack->n_cases, pack->files[pack->weights].bytes, pack->arena,
                sum_cost(pack, 1), sum_cost(pack, 0));
        json_tensors("inputs", pack->inputs, pack->n_inputs);
        json_tensors("outputs", pack->outputs, pack->n_outputs);
}

static void json_footprint(const struct sv_report *report)
{
        const struct sv_bm_footprint *f = report->footprint;

        printf(", \"bimodal\": {\"memory_bound_launches\": %u, \"weights\": %" PRIu64 ", \"weights_again\": %" PRIu64
               ", \"arena\": %" PRIu64 ", \"arena_apart\": %" PRIu64 ", \"arena_again\": %" PRIu64
               ", \"arena_again_apart\": %" PRIu64 "}",
                report->memory_bound, f->weights, f->weights_again, f->arena, f->arena_apart, f->arena_again,
                f->arena_again_apart);
}

static void json_coloured(const struct sv_coloured_figures *f)
{
        printf(", \"bimodal\": {\"launches\": %u, \"memory_bound\": %u, \"forms\": %u, \"refused\": %u, \"launched\": "
               "%" PRIu64 ", \"coloured\": %" PRIu64 ", \"moves\": %" PRIu64 "}",
                f->launches, f->memory_bound, f->forms, f->refused, f->launched, f->coloured, f->moves);
}

static void json_cases(const struct sv_report *report)
{
        printf(", \"checked\": [");
        for (uint32_t i = 0; i < report->n_cases; i++) {
                const struct sv_verdict *v = &report->verdicts[i];

                printf("%s{\"case\": %u", i ? ", " : "", i);
                if (report->options->digest)
                        printf(", \"sha256\": \"%s\"", report->digests[i]);
                if (report->judged && isfinite(v->worst))
                        printf(", \"worst_of_tolerance\": %.6g", v->worst);
                if (report->judged)
                        printf(", \"elements\": %" PRIu64 ", \"wrong\": %" PRIu64, v->n, v->wrong);
                printf("}");
        }
        printf("]");
}

static void json_served(const struct sv_report *report)
{
        printf(", \"requests\": %" PRIu64 ", \"seconds\": %.6f, \"requests_per_s\": %.3f", report->requests,
                (double)report->ns / 1e9, report->ns ? (double)report->requests * 1e9 / (double)report->ns : 0);
        json_times("latency_us", &report->latency);
        json_times("service_us", &report->service);
        if (report->options->slo_ms > 0)
                printf(", \"slo_ms\": %g, \"in_slo\": %" PRIu64, report->options->slo_ms, report->in_slo);
        if (report->options->mode == SV_LISTEN)
                printf(", \"bad\": %" PRIu64 ", \"slow\": %" PRIu64 ", \"late\": %" PRIu64 ", \"busy\": %" PRIu64
                       ", \"dropped\": %" PRIu64,
                        report->bad, report->slow, report->late, report->busy, report->dropped);
        else
                printf(", \"different\": %" PRIu64, report->different);
}

static void json(const struct sv_report *report)
{
        printf("{");
        json_pack(report->pack);
        printf(", ");
        json_string("device", report->gpu);
        printf(", ");
        json_string("driver", report->driver);
        printf(", \"simulated\": %s, \"native\": %s, ", report->simulated ? "true" : "false",
                report->native ? "true" : "false");
        json_string("class", report->class_ ? report->class_ : "none");
        printf(", \"instances\": %u, \"device_bytes\": %" PRIu64 ", \"prepare_ms\": %.3f, \"same\": %s",
                report->options->instances, sv_model_bytes(report->pack, report->options->instances),
                (double)report->prepare_ns / 1e6, report->same ? "true" : "false");
        if (report->bimodal)
                json_coloured(&report->coloured);
        json_cases(report);
        if (report->served)
                json_served(report);
        printf("}\n");
}

void sv_report_ready(const struct sv_report *report)
{
        printf("{\"ready\": {\"instances\": %u, \"batch\": %" PRIu64 ", \"same\": %s", report->options->instances,
                report->pack->batch, report->same ? "true" : "false");
        json_cases(report);
        printf("}}\n");
}

/* --- for people --------------------------------------------------------------------------------------------------- */

static const char *bytes_text(uint64_t bytes, char text[static 32])
{
        static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
        double value = (double)bytes;
        unsigned i = 0;

        for (; value >= 1024 && i < 3; i++)
                value /= 1024;
        (void)snprintf(text, 32, i && value < 100 ? "%.1f %s" : "%.0f %s", value, units[i]);
        return text;
}

static const char *time_text(uint64_t ns, char text[static 32])
{
        if (ns < 1000000)
                (void)snprintf(text, 32, "%.1f us", (double)ns / 1e3);
        else if (ns < 1000000000)
                (void)snprintf(text, 32, "%.3f ms", (double)ns / 1e6);
        else
                (void)snprintf(text, 32, "%.3f s", (double)ns / 1e9);
        return text;
}

static void print_tensors(const char *what, const struct sv_tensor *list, uint32_t n)
{
        for (uint32_t i = 0; i < n; i++) {
                char text[32];

                printf("%-10s %s, %s ", what, list[i].name, sv_type_name(list[i].type));
                for (uint32_t k = 0; k < list[i].n_dims; k++)
                        printf("%s%" PRIu64, k ? "x" : "", list[i].dims[k]);
                printf(", %s\n", bytes_text(list[i].bytes, text));
        }
}

static void print_pack(const struct sv_pack *pack)
{
        char weights[32], arena[32];

        printf("pack       %s, batch %" PRIu64 ", %u launches of %u kernels, weights %s, arena %s\n", pack->model,
                pack->batch, pack->n_launches, pack->n_kernels, bytes_text(pack->files[pack->weights].bytes, weights),
                bytes_text(pack->arena, arena));
}

static void print_all_of_pack(const struct sv_pack *pack)
{
        char text[32];

        print_pack(pack);
        printf("made by    %s, sm_%u and later, for class %s; outputs of %s\n", pack->compiler, pack->arch,
                pack->class_ == SV_LS ? "ls" : "be", pack->framework);
        print_tensors("input", pack->inputs, pack->n_inputs);
        print_tensors("output", pack->outputs, pack->n_outputs);
        if (sum_cost(pack, 1))
                printf("a request  %.4g GFLOP, at least %s moved (from shapes)\n", (double)sum_cost(pack, 1) / 1e9,
                        bytes_text(sum_cost(pack, 0), text));
        printf("cases      %u\n", pack->n_cases);
}

static void print_footprint(const struct sv_report *report)
{
        const struct sv_bm_footprint *f = report->footprint;
        char text[4][32];

        printf("bimodal    memory bounds %u of %u launches; weights %s and %s again, intermediates %s and %s again\n",
                report->memory_bound, report->pack->n_launches, bytes_text(f->weights, text[0]),
                bytes_text(f->weights_again, text[1]), bytes_text(f->arena, text[2]),
                bytes_text(f->arena_again, text[3]));
        printf("           each intermediate with memory of its own: %s and %s again\n",
                bytes_text(f->arena_apart, text[0]), bytes_text(f->arena_again_apart, text[1]));
}

static void print_coloured(const struct sv_coloured_figures *f)
{
        printf("bimodal    memory bounds %u of %u launches, %u forms of kernels, %u kernels without; %" PRIu64
               " of %" PRIu64 " launches had coloured tensors, weights moved %" PRIu64 " times\n",
                f->memory_bound, f->launches, f->forms, f->refused, f->coloured, f->launched, f->moves);
}

static void print_case(const struct sv_report *report, uint32_t i)
{
        const struct sv_verdict *v = &report->verdicts[i];

        if (report->judged)
                printf("case %-5u %s: %" PRIu64 " of %" PRIu64
                       " elements within the tolerance; nearest to its end, at %.3g"
                       " of it: element %" PRIu64 " of %s, %.9g for %.9g\n",
                        i, v->wrong ? "WRONG" : "right", v->n - v->wrong, v->n, v->worst, v->element,
                        report->pack->outputs[v->output].name, v->got, v->want);
        if (report->options->digest)
                printf("case %-5u sha256 %s\n", i, report->digests[i]);
}

static void print_times(const char *name, const struct sv_times *t)
{
        char p50[32], p95[32], p99[32], max[32];

        printf("%-10s p50 %s   p95 %s   p99 %s   max %s\n", name, time_text(t->p50, p50), time_text(t->p95, p95),
                time_text(t->p99, p99), time_text(t->max, max));
}

static void print_served(const struct sv_report *report)
{
        const struct sv_options *o = report->options;

        printf("requests   %" PRIu64 " in %.3f s, %.1f per second, %u instance%s\n", report->requests,
                (double)report->ns / 1e9, report->ns ? (double)report->requests * 1e9 / (double)report->ns : 0,
                o->instances, o->instances == 1 ? "" : "s");
        print_times("latency", &report->latency);
        if (o->mode != SV_LOOP)
                print_times("service", &report->service);
        if (o->slo_ms > 0)
                printf("objective  %g ms: %.2f %% kept it\n", o->slo_ms,
                        report->requests ? 100.0 * (double)report->in_slo / (double)report->requests : 100.0);
        if (o->mode == SV_LISTEN)
                printf("clients    %" PRIu64 " bad requests; ended: %" PRIu64 " slow, %" PRIu64
                       " idle; refused: %" PRIu64 ", and %" PRIu64 " that waited for too long\n",
                        report->bad, report->slow, report->dropped, report->busy, report->late);
        else
                printf("outputs    %s\n",
                        report->different ? "DIFFERENT from the first of their case" : "the same bits every time");
}

void sv_report_pack(const struct sv_report *report)
{
        if (report->options->json) {
                printf("{");
                json_pack(report->pack);
                if (report->footprint)
                        json_footprint(report);
                printf("}\n");
        } else {
                print_all_of_pack(report->pack);
                printf("files      %u, %s\n", report->pack->n_files,
                        report->options->trusted ? "of the right lengths" : "as their hashes say");
                if (report->footprint)
                        print_footprint(report);
        }
}

void sv_report(const struct sv_report *report)
{
        char text[32];

        if (report->options->json) {
                json(report);
                return;
        }
        print_pack(report->pack);
        printf("device     %s%s, %s%s%s; ready after %s\n", report->gpu,
                report->simulated ? " (simulated: times are the model's, not a GPU's)" : "",
                report->native ? "natively" : "under DetShare", report->class_ ? " as " : "",
                report->class_ ? report->class_ : "", time_text(report->prepare_ns, text));
        if (report->bimodal)
                print_coloured(&report->coloured);
        if (!report->same)
                printf("outputs    DIFFERENT between instances or runs\n");
        for (uint32_t i = 0; i < report->n_cases; i++)
                print_case(report, i);
        if (report->served)
                print_served(report);
}
