/* SPDX-License-Identifier: Apache-2.0 */
#include "lut/learn/network.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "lut/learn/set.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define LAYERS 3
#define BATCH 32
#define RATE 0.004f
#define KEEP_MEAN 0.9f /* decay rates of Adam's two moments */
#define KEEP_SQUARE 0.999f
#define SMALL 1e-8f
#define SHRINK 0.05f /* weight decay, so that the network does not fit single examples */

/* Weights are stored by output: weight[o * in + i], followed by the biases. */
struct layer {
        uint32_t in, out;
        size_t n;
        float *weight, *gradient, *mean, *square;
        float *value, *error; /* per output: value of the unit, derivative of the loss */
};

struct ds_network {
        struct layer layer[LAYERS];
        float mean_left, square_left; /* corrections of Adam's moments for the first steps */
};

/* Approximately normally distributed random number: the sum of twelve uniform ones. */
static float gaussian(uint64_t *state)
{
        float sum = -6;

        for (int i = 0; i < 12; i++)
                sum += (float)(ds_learn_random(state) >> 40) / (float)(1 << 24);
        return sum;
}

static bool layer_init(struct layer *layer, uint32_t in, uint32_t out, uint64_t *state)
{
        float spread = sqrtf(2.f / (float)in);

        layer->in = in;
        layer->out = out;
        layer->n = (size_t)out * in + out;
        layer->weight = ds_alloc0(layer->n, sizeof(float));
        layer->gradient = ds_alloc0(layer->n, sizeof(float));
        layer->mean = ds_alloc0(layer->n, sizeof(float));
        layer->square = ds_alloc0(layer->n, sizeof(float));
        layer->value = ds_alloc0(out, sizeof(float));
        layer->error = ds_alloc0(out, sizeof(float));
        if (!layer->weight || !layer->gradient || !layer->mean || !layer->square || !layer->value || !layer->error)
                return false;
        for (size_t i = 0; i < (size_t)out * in; i++)
                layer->weight[i] = spread * gaussian(state);
        return true;
}

struct ds_network *ds_network_new(uint32_t inputs, uint32_t hidden, uint32_t classes, uint64_t seed)
{
        __typeof__(struct ds_network) *network = ds_alloc0(1, sizeof(*network));
        uint64_t state = seed;

        if (!network)
                return NULL;
        network->mean_left = network->square_left = 1;
        if (!layer_init(&network->layer[0], inputs, hidden, &state) ||
                !layer_init(&network->layer[1], hidden, hidden, &state) ||
                !layer_init(&network->layer[2], hidden, classes, &state))
                return ds_network_free(network);
        return network;
}

struct ds_network *ds_network_free(struct ds_network *network)
{
        if (!network)
                return NULL;
        for (int i = 0; i < LAYERS; i++) {
                ds_free(network->layer[i].weight);
                ds_free(network->layer[i].gradient);
                ds_free(network->layer[i].mean);
                ds_free(network->layer[i].square);
                ds_free(network->layer[i].value);
                ds_free(network->layer[i].error);
        }
        return ds_free(network);
}

static void forward(struct layer *layer, const float *input, bool rectified)
{
        const float *bias = layer->weight + (size_t)layer->out * layer->in;

        for (uint32_t o = 0; o < layer->out; o++) {
                const float *weight = layer->weight + (size_t)o * layer->in;
                float sum[4] = {bias[o], 0, 0, 0};
                uint32_t i = 0;

                for (; i + 4 <= layer->in; i += 4)
                        for (int k = 0; k < 4; k++)
                                sum[k] += weight[i + k] * input[i + k];
                for (; i < layer->in; i++)
                        sum[0] += weight[i] * input[i];
                sum[0] += sum[1] + sum[2] + sum[3];
                layer->value[o] = rectified && sum[0] < 0 ? 0 : sum[0];
        }
}

/* Adds this example's share to the gradients. ret_error, if not NULL: derivatives of the loss for the layer's
 * inputs. */
static void backward(struct layer *layer, const float *input, float *ret_error)
{
        float *bias = layer->gradient + (size_t)layer->out * layer->in;

        if (ret_error)
                memset(ret_error, 0, layer->in * sizeof(*ret_error));
        for (uint32_t o = 0; o < layer->out; o++) {
                const float *weight = layer->weight + (size_t)o * layer->in;
                float *gradient = layer->gradient + (size_t)o * layer->in, error = layer->error[o];

                if (error == 0)
                        continue;
                bias[o] += error;
                for (uint32_t i = 0; i < layer->in; i++)
                        gradient[i] += error * input[i];
                for (uint32_t i = 0; ret_error && i < layer->in; i++)
                        ret_error[i] += error * weight[i];
        }
}

static void logarithms(struct layer *last, float *ret_log)
{
        float most = last->value[0], sum = 0;

        for (uint32_t c = 1; c < last->out; c++)
                most = fmaxf(most, last->value[c]);
        for (uint32_t c = 0; c < last->out; c++)
                sum += expf(last->value[c] - most);
        for (uint32_t c = 0; c < last->out; c++)
                ret_log[c] = last->value[c] - most - logf(sum);
}

void ds_network_tell(struct ds_network *network, const float *input, float *ret_log)
{
        forward(&network->layer[0], input, true);
        forward(&network->layer[1], network->layer[0].value, true);
        forward(&network->layer[2], network->layer[1].value, false);
        logarithms(&network->layer[2], ret_log);
}

static void learn_one(struct ds_network *network, const float *input, uint8_t class)
{
        struct layer *layer = network->layer;

        ds_network_tell(network, input, layer[2].error);
        for (uint32_t c = 0; c < layer[2].out; c++)
                layer[2].error[c] = expf(layer[2].error[c]) - (c == class ? 1.f : 0.f);
        for (int i = LAYERS - 1; i > 0; i--) {
                backward(&layer[i], layer[i - 1].value, layer[i - 1].error);
                for (uint32_t o = 0; o < layer[i - 1].out; o++)
                        layer[i - 1].error[o] *= layer[i - 1].value[o] > 0 ? 1.f : 0.f;
        }
        backward(&layer[0], input, NULL);
}

static void step(struct ds_network *network, float rate, uint32_t batch)
{
        float shrink = rate * SHRINK;

        network->mean_left *= KEEP_MEAN;
        network->square_left *= KEEP_SQUARE;
        rate *= sqrtf(1 - network->square_left) / (1 - network->mean_left);
        for (int k = 0; k < LAYERS; k++) {
                struct layer *layer = &network->layer[k];

                for (size_t i = 0; i < layer->n; i++) {
                        float gradient = layer->gradient[i] / (float)batch;

                        layer->mean[i] = KEEP_MEAN * layer->mean[i] + (1 - KEEP_MEAN) * gradient;
                        layer->square[i] = KEEP_SQUARE * layer->square[i] + (1 - KEEP_SQUARE) * gradient * gradient;
                        layer->weight[i] *= 1 - shrink;
                        layer->weight[i] -= rate * layer->mean[i] / (sqrtf(layer->square[i]) + SMALL);
                }
                memset(layer->gradient, 0, layer->n * sizeof(*layer->gradient));
        }
}

int ds_network_train(struct ds_network *network, const float *inputs, const uint8_t *classes, size_t n, uint32_t epochs,
        uint64_t seed)
{
        ds_cleanup(ds_freep) uint32_t *order = ds_alloc0(n + 1, sizeof(*order));
        uint32_t in = network->layer[0].in, batch = 0;
        float rate;

        if (!order)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < n; i++)
                order[i] = i;
        for (uint32_t epoch = 0; epoch < epochs; epoch++) {
                rate = RATE * (1 - (float)epoch / (float)epochs) + RATE / 100;
                for (size_t i = n; i > 1; i--) {
                        size_t k = ds_learn_random(&seed) % i;
                        uint32_t swap = order[i - 1];

                        order[i - 1] = order[k];
                        order[k] = swap;
                }
                for (size_t i = 0; i < n; i++) {
                        learn_one(network, inputs + (size_t)order[i] * in, classes[order[i]]);
                        if (++batch == BATCH || i + 1 == n) {
                                step(network, rate, batch);
                                batch = 0;
                        }
                }
        }
        return 0;
}
