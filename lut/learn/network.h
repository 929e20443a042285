/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small neural network that classifies inputs
 *
 * Two hidden layers of rectified linear units and a softmax, trained with Adam in one thread. Single precision; the
 * same inputs, order and seed give the same network with the same compiler. It has no knowledge of hashes: the caller's
 * choice of inputs makes a hash learnable.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ds_network;

/* Makes a network with random weights. Returns NULL if out of memory. */
struct ds_network *ds_network_new(uint32_t inputs, uint32_t hidden, uint32_t classes, uint64_t seed);
struct ds_network *ds_network_free(struct ds_network *network);
/* Trains for `epochs` passes over n examples, each pass in a new order, with a decreasing learning rate. Returns 0
 * or -ENOMEM. */
int ds_network_train(struct ds_network *network, const float *inputs, const uint8_t *classes, size_t n, uint32_t epochs,
        uint64_t seed);
/* ret_log: logarithms of the classes' probabilities for this input. */
void ds_network_tell(struct ds_network *network, const float *input, float *ret_log);
