/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The demo's latency-sensitive service: a small image network that answers requests at the arrivals of a trace
 *
 * A Driver API program: it loads kernels, keeps its weights on the device, and for every arrival copies an image in,
 * runs the network (28 kernels) and copies the answer out. The latency of a request is from its arrival to its answer,
 * on the device clock (virtual on a simulated device), so a request that finds the service busy pays for the wait.
 * Prints one line per request: its arrival and its latency in ns, and the hash of its answer. With -s arrivals count
 * from the begin of the common start (common.h).
 *
 * usage: ls_service [-s] KERNELS.ptx TRACE.json REQUESTS TIME_DIVISOR [IMAGE]     IMAGE x IMAGE pixels: 16 or 32 (32)
 */
#include "common.h"

#define IMAGE_MAX 32
#define CLASSES 10
#define STAGES 4
#define WIDEST (16 * IMAGE_MAX * IMAGE_MAX)
#define PIXELS_MAX (3 * IMAGE_MAX * IMAGE_MAX)

static CUfunction k_conv, k_depthwise, k_gemm, k_bias_relu, k_bias_gelu, k_pool, k_norm, k_softmax;
static CUstream stream;

/* A depthwise-separable stage: c_in channels of size x size to c_out, the size divided by stride. */
struct stage {
        int c_in, c_out, size, stride;
        CUdeviceptr depthwise, depthwise_bias, pointwise, pointwise_bias;
};

struct network {
        int size; /* pixels of an image in x and in y */
        CUdeviceptr image, a, b, answer;
        CUdeviceptr stem, stem_bias;
        struct stage stage[STAGES];
        CUdeviceptr gain, bias, hidden, hidden_bias, head;
};

static void launch(CUfunction f, int gx, int gy, int gz, int bx, int by, size_t shared, void **params)
{
        CHECK(cuLaunchKernel(f, (unsigned)gx, (unsigned)gy, (unsigned)gz, (unsigned)bx, (unsigned)by, 1,
                (unsigned)shared, stream, params, NULL));
}

static void bias_relu(CUdeviceptr x, CUdeviceptr bias, int channels, int plane)
{
        void *params[] = {&x, &bias, &channels, &plane};

        launch(k_bias_relu, (channels * plane + 127) / 128, 1, 1, 128, 1, 0, params);
}

static void gemm(CUdeviceptr a, CUdeviceptr b, CUdeviceptr c, int m, int n, int k)
{
        void *params[] = {&a, &b, &c, &m, &n, &k};

        launch(k_gemm, (n + 15) / 16, (m + 15) / 16, 1, 16, 16, 0, params);
}

static void run_stage(struct network *net, struct stage *s)
{
        int out = s->size / s->stride, plane = out * out;
        void *params[] = {&net->a, &s->depthwise, &net->b, &s->size, &s->size, &s->stride};

        launch(k_depthwise, (out + 15) / 16, (out + 7) / 8, s->c_in, 16, 8, 0, params);
        bias_relu(net->b, s->depthwise_bias, s->c_in, plane);
        gemm(s->pointwise, net->b, net->a, s->c_out, plane, s->c_in);
        bias_relu(net->a, s->pointwise_bias, s->c_out, plane);
}

static void run_head(struct network *net, int channels, int plane)
{
        int classes = CLASSES;
        void *pool[] = {&net->a, &net->b, &plane};
        void *norm[] = {&net->b, &net->gain, &net->bias, &channels};
        void *gelu[] = {&net->a, &net->hidden_bias, &channels};
        void *soft[] = {&net->answer, &classes};

        launch(k_pool, channels, 1, 1, 64, 1, 0, pool);
        launch(k_norm, 1, 1, 1, 64, 1, 0, norm);
        gemm(net->b, net->hidden, net->a, 1, channels, channels);
        launch(k_bias_gelu, (channels + 127) / 128, 1, 1, 128, 1, 0, gelu);
        gemm(net->a, net->head, net->answer, 1, CLASSES, channels);
        launch(k_softmax, 1, 1, 1, 32, 1, 0, soft);
}

static void infer(struct network *net, const float *image, float *answer)
{
        int c_in = 3, size = net->size, stride = 1, last = STAGES - 1;
        unsigned plane = (unsigned)(size * size);
        void *stem[] = {&net->image, &net->stem, &net->a, &c_in, &size, &size, &stride};

        CHECK(cuMemcpyHtoDAsync(net->image, image, 3 * plane * sizeof(float), stream));
        launch(k_conv, size / 16, size / 8, net->stage[0].c_in, 16, 8, 3 * 9 * sizeof(float), stem);
        bias_relu(net->a, net->stem_bias, net->stage[0].c_in, (int)plane);
        for (int i = 0; i < STAGES; i++)
                run_stage(net, &net->stage[i]);
        size = net->stage[last].size / net->stage[last].stride;
        run_head(net, net->stage[last].c_out, size * size);
        CHECK(cuMemcpyDtoHAsync(answer, net->answer, CLASSES * sizeof(float), stream));
        CHECK(cuStreamSynchronize(stream));
}

static void build(struct network *net)
{
        /* channels in and out, divisor of the image's size, stride */
        static const int shape[STAGES][4] = {{16, 32, 1, 2}, {32, 32, 2, 1}, {32, 64, 2, 2}, {64, 64, 4, 1}};
        uint32_t seed = 20251120;

        CHECK(cuMemAlloc(&net->image, PIXELS_MAX * sizeof(float)));
        CHECK(cuMemAlloc(&net->a, WIDEST * sizeof(float)));
        CHECK(cuMemAlloc(&net->b, WIDEST * sizeof(float)));
        CHECK(cuMemAlloc(&net->answer, CLASSES * sizeof(float)));
        net->stem = demo_weights(16 * 3 * 9, 0.3f, &seed);
        net->stem_bias = demo_weights(16, 0.1f, &seed);
        for (int i = 0; i < STAGES; i++) {
                struct stage *s = &net->stage[i];

                *s = (struct stage){shape[i][0], shape[i][1], net->size / shape[i][2], shape[i][3], 0, 0, 0, 0};
                s->depthwise = demo_weights((size_t)s->c_in * 9, 0.4f, &seed);
                s->depthwise_bias = demo_weights((size_t)s->c_in, 0.1f, &seed);
                s->pointwise = demo_weights((size_t)s->c_in * (size_t)s->c_out, 0.3f, &seed);
                s->pointwise_bias = demo_weights((size_t)s->c_out, 0.1f, &seed);
        }
        net->gain = demo_weights(64, 1, &seed);
        net->bias = demo_weights(64, 0.1f, &seed);
        net->hidden = demo_weights(64 * 64, 0.2f, &seed);
        net->hidden_bias = demo_weights(64, 0.1f, &seed);
        net->head = demo_weights(64 * CLASSES, 0.5f, &seed);
}

static void load_kernels(const char *path)
{
        char *ptx = demo_read_file(path);
        CUmodule module;

        CHECK(cuModuleLoadData(&module, ptx));
        free(ptx);
        CHECK(cuModuleGetFunction(&k_conv, module, "conv3x3"));
        CHECK(cuModuleGetFunction(&k_depthwise, module, "depthwise3x3"));
        CHECK(cuModuleGetFunction(&k_gemm, module, "gemm"));
        CHECK(cuModuleGetFunction(&k_bias_relu, module, "bias_relu"));
        CHECK(cuModuleGetFunction(&k_bias_gelu, module, "bias_gelu"));
        CHECK(cuModuleGetFunction(&k_pool, module, "average_pool"));
        CHECK(cuModuleGetFunction(&k_norm, module, "layer_norm"));
        CHECK(cuModuleGetFunction(&k_softmax, module, "softmax"));
}

/* Seconds to the next arrival; *at: position in the JSON list of gaps. */
static double next_gap(const char **at)
{
        char *end;
        double gap = strtod(*at + 1, &end);

        if (end == *at + 1) {
                fprintf(stderr, "the trace has fewer arrivals than there are requests\n");
                exit(1);
        }
        *at = end;
        return gap;
}

/* gaps: the JSON list of seconds between arrivals. */
static void serve(struct network *net, int common, const char *gaps, long requests, double divisor)
{
        static float image[PIXELS_MAX];
        float answer[CLASSES];
        const char *at = strchr(gaps, '[');
        uint32_t seed = 7;
        uint64_t arrival, end;

        if (common)
                demo_start(&arrival, &end);
        else
                arrival = demo_now();
        for (long i = 0; at && i < requests; i++) {
                arrival += (uint64_t)(next_gap(&at) * 1e9 / divisor);
                for (int j = 0; j < 3 * net->size * net->size; j++)
                        image[j] = demo_random(&seed);
                detshare_sleep_until(arrival);
                infer(net, image, answer);
                printf("%llu %llu %016llx\n", (unsigned long long)arrival, (unsigned long long)(demo_now() - arrival),
                        (unsigned long long)demo_hash(DEMO_HASH_START, answer, sizeof(answer)));
        }
}

static void prepare(struct network *net, int common, const char *kernels)
{
        static float image[PIXELS_MAX];
        float answer[CLASSES];
        CUcontext context;
        CUdevice device;

        CHECK(cuInit(0));
        if (common)
                /* declares the thread to the virtual clock: preparing takes the same virtual time on every machine */
                (void)demo_now();
        CHECK(cuDeviceGet(&device, 0));
        CHECK(cuDevicePrimaryCtxRetain(&context, device));
        CHECK(cuCtxSetCurrent(context));
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        load_kernels(kernels);
        build(net);
        infer(net, image, answer); /* first inference, which does not count */
}

int main(int argc, char **argv)
{
        int common = demo_flag(&argc, &argv);
        struct network net = {.size = argc == 6 ? atoi(argv[5]) : IMAGE_MAX};
        char *gaps;

        if (argc < 5 || argc > 6 || (net.size != 16 && net.size != 32)) {
                fprintf(stderr,
                        "usage: ls_service [-s] KERNELS.ptx TRACE.json REQUESTS TIME_DIVISOR [IMAGE: 16 or 32]\n");
                return 2;
        }
        prepare(&net, common, argv[1]);
        gaps = demo_read_file(argv[2]);
        serve(&net, common, gaps, strtol(argv[3], NULL, 10), strtod(argv[4], NULL));
        free(gaps);
        return 0;
}
