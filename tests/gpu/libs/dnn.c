/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuDNN: convolution forward and backward with the algorithms that it proposes, activation, batch normalisation,
 * pooling, softmax
 */
#include "libs.h"

#include <cudnn.h>
#include <stdio.h>

enum { N = 4, C = 16, H = 32, K = 32 };

typedef struct {
        cudnnHandle_t dnn;
        cudnnTensorDescriptor_t x, y;
        cudnnFilterDescriptor_t w;
        cudnnConvolutionDescriptor_t convolution;
} net;

static const float one = 1, zero = 0;

static size_t workspace_of(void **at, size_t bytes)
{
        *at = libs_bytes(bytes);
        return bytes;
}

static void describe(net *n)
{
        CHECK(cudnnCreate(&n->dnn));
        CHECK(cudnnCreateTensorDescriptor(&n->x));
        CHECK(cudnnCreateTensorDescriptor(&n->y));
        CHECK(cudnnCreateFilterDescriptor(&n->w));
        CHECK(cudnnCreateConvolutionDescriptor(&n->convolution));
        CHECK(cudnnSetTensor4dDescriptor(n->x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, C, H, H));
        CHECK(cudnnSetTensor4dDescriptor(n->y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, K, H, H));
        CHECK(cudnnSetFilter4dDescriptor(n->w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, K, C, 3, 3));
        CHECK(cudnnSetConvolution2dDescriptor(
                n->convolution, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
}

static void forward(const net *n, const float *x, const float *w, float *y)
{
        cudnnConvolutionFwdAlgoPerf_t found[8];
        void *workspace;
        size_t bytes;
        int n_found;

        CHECK(cudnnGetConvolutionForwardAlgorithm_v7(n->dnn, n->x, n->w, n->convolution, n->y, 8, &n_found, found));
        printf("forward: %d algorithms, the first is %d and wants %zu bytes\n", n_found, (int)found[0].algo,
                found[0].memory);
        CHECK(n_found == 0);
        bytes = workspace_of(&workspace, found[0].memory);
        CHECK(cudnnConvolutionForward(
                n->dnn, &one, n->x, x, n->w, w, n->convolution, found[0].algo, workspace, bytes, &zero, n->y, y));
        libs_say_floats("convolution forward", y, (size_t)N * K * H * H);
        CHECK(cudnnConvolutionForward(n->dnn, &one, n->x, x, n->w, w, n->convolution,
                CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, workspace, bytes, &zero, n->y, y));
        libs_say_floats("convolution forward, implicit gemm", y, (size_t)N * K * H * H);
}

static void backward(const net *n, const float *x, const float *w, const float *dy)
{
        float *dx = libs_floats((size_t)N * C * H * H, 0), *dw = libs_floats((size_t)K * C * 9, 0);
        void *workspace;
        size_t bytes;

        CHECK(cudnnGetConvolutionBackwardDataWorkspaceSize(
                n->dnn, n->w, n->y, n->convolution, n->x, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, &bytes));
        workspace_of(&workspace, bytes);
        CHECK(cudnnConvolutionBackwardData(n->dnn, &one, n->w, w, n->y, dy, n->convolution,
                CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, workspace, bytes, &zero, n->x, dx));
        libs_say_floats("convolution backward, data", dx, (size_t)N * C * H * H);
        CHECK(cudnnGetConvolutionBackwardFilterWorkspaceSize(
                n->dnn, n->x, n->y, n->convolution, n->w, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, &bytes));
        workspace_of(&workspace, bytes);
        CHECK(cudnnConvolutionBackwardFilter(n->dnn, &one, n->x, x, n->y, dy, n->convolution,
                CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, workspace, bytes, &zero, n->w, dw));
        libs_say_floats("convolution backward, filter", dw, (size_t)K * C * 9);
}

static void activate(const net *n, float *y)
{
        cudnnActivationDescriptor_t activation;

        CHECK(cudnnCreateActivationDescriptor(&activation));
        CHECK(cudnnSetActivationDescriptor(activation, CUDNN_ACTIVATION_TANH, CUDNN_PROPAGATE_NAN, 0));
        CHECK(cudnnActivationForward(n->dnn, activation, &one, n->y, y, &zero, n->y, y));
        libs_say_floats("activation", y, (size_t)N * K * H * H);
        CHECK(cudnnDestroyActivationDescriptor(activation));
        CHECK(cudnnSoftmaxForward(
                n->dnn, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, n->y, y, &zero, n->y, y));
        libs_say_floats("softmax", y, (size_t)N * K * H * H);
}

static void normalise(const net *n, const float *y)
{
        float *out = libs_floats((size_t)N * K * H * H, 0), *scale = libs_floats(K, 11), *bias = libs_floats(K, 12);
        float *mean = libs_floats(K, 0), *variance = libs_floats(K, 0),
              *saved[2] = {libs_floats(K, 0), libs_floats(K, 0)};
        cudnnTensorDescriptor_t each;

        CHECK(cudnnCreateTensorDescriptor(&each));
        CHECK(cudnnDeriveBNTensorDescriptor(each, n->y, CUDNN_BATCHNORM_SPATIAL));
        CHECK(cudnnBatchNormalizationForwardTraining(n->dnn, CUDNN_BATCHNORM_SPATIAL, &one, &zero, n->y, y, n->y, out,
                each, scale, bias, 1, mean, variance, 1e-5, saved[0], saved[1]));
        libs_say_floats("batch normalisation", out, (size_t)N * K * H * H);
        libs_say_floats("its means", saved[0], K);
        CHECK(cudnnBatchNormalizationForwardInference(n->dnn, CUDNN_BATCHNORM_SPATIAL, &one, &zero, n->y, y, n->y, out,
                each, scale, bias, mean, variance, 1e-5));
        libs_say_floats("batch normalisation, inference", out, (size_t)N * K * H * H);
        CHECK(cudnnDestroyTensorDescriptor(each));
}

static void pool(const net *n, const float *y)
{
        float *out = libs_floats((size_t)N * K * H * H / 4, 0);
        cudnnPoolingDescriptor_t pooling;
        cudnnTensorDescriptor_t half;

        CHECK(cudnnCreatePoolingDescriptor(&pooling));
        CHECK(cudnnCreateTensorDescriptor(&half));
        CHECK(cudnnSetTensor4dDescriptor(half, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, K, H / 2, H / 2));
        CHECK(cudnnSetPooling2dDescriptor(pooling, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2));
        CHECK(cudnnPoolingForward(n->dnn, pooling, &one, n->y, y, &zero, half, out));
        libs_say_floats("pooling", out, (size_t)N * K * H * H / 4);
        CHECK(cudnnDestroyPoolingDescriptor(pooling));
        CHECK(cudnnDestroyTensorDescriptor(half));
}

int main(void)
{
        net n;
        float *x, *w, *y;

        describe(&n);
        x = libs_floats((size_t)N * C * H * H, 1);
        w = libs_floats((size_t)K * C * 9, 2);
        y = libs_floats((size_t)N * K * H * H, 0);
        forward(&n, x, w, y);
        backward(&n, x, w, y);
        pool(&n, y);
        normalise(&n, y);
        activate(&n, y);
        CHECK(cudnnDestroyConvolutionDescriptor(n.convolution));
        CHECK(cudnnDestroyFilterDescriptor(n.w));
        CHECK(cudnnDestroyTensorDescriptor(n.x));
        CHECK(cudnnDestroyTensorDescriptor(n.y));
        CHECK(cudnnDestroy(n.dnn));
        return 0;
}
