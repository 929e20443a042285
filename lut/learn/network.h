/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small neural network that learns which of n classes an input belongs to
 *
 * Two hidden layers of rectified units and a softmax, trained on one processor with Adam. Single precision; the same
 * inputs, order and seed give the same network with the same compiler. It knows nothing of hashes: what makes a hash
 * learnable is the choice of its inputs, which is the caller's.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ds_network;

/* NULL when there is no memory. */
struct ds_network *ds_network_new(uint32_t inputs, uint32_t hidden, uint32_t classes, uint64_t seed);
struct ds_network *ds_network_free(struct ds_network *network);
/* Goes `epochs` times through n examples, each time in another order; the rate falls towards the end. 0 or -ENOMEM. */
int ds_network_train(struct ds_network *network, const float *inputs, const uint8_t *classes, size_t n, uint32_t epochs,
        uint64_t seed);
/* Logarithms of the classes' probabilities. */
void ds_network_tell(struct ds_network *network, const float *input, float *ret_log);
