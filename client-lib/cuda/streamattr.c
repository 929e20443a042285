/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes of streams
 *
 * They are checked, stored and returned, without effect: the daemon and the hardware decide about L2 persistence, the
 * way of waiting and memory fences. A stream's priority is fixed at creation; setting it changes only the reported
 * value. The default streams of all threads share one set each.
 */
#include <string.h>

#include "cuda/stream.h"

static struct dcu_stream_attributes defaults[2]; /* attributes of the legacy and the per-thread default streams */

/* Returns the attributes of a stream or of a default stream; NULL and *ret_error for an invalid handle. With
 * dcu.lock held. */
static struct dcu_stream_attributes *attributes_of(
        CUstream stream, const struct dcu_context *current, CUresult *ret_error)
{
        struct dcu_stream *object = dcu_object_of(stream, DCU_STREAM);

        if (object)
                return &object->attributes;
        if (!current)
                *ret_error = CUDA_ERROR_INVALID_CONTEXT;
        else if (stream == CU_STREAM_LEGACY || (!stream && !dcu_self.per_thread))
                return &defaults[0];
        else if (!stream || stream == CU_STREAM_PER_THREAD)
                return &defaults[1];
        else
                *ret_error = CUDA_ERROR_INVALID_HANDLE;
        return NULL;
}

static int window_valid(const CUaccessPolicyWindow *window)
{
        size_t most = (size_t)dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE);

        return window->num_bytes <= most && window->hitRatio >= 0 && window->hitRatio <= 1 &&
               (unsigned int)window->hitProp <= CU_ACCESS_PROPERTY_PERSISTING &&
               (unsigned int)window->missProp <= CU_ACCESS_PROPERTY_STREAMING;
}

static CUresult set(
        struct dcu_stream_attributes *a, struct dcu_stream *object, CUstreamAttrID attr, const CUstreamAttrValue *value)
{
        int valid;

        switch ((unsigned int)attr) {
        case CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
                valid = window_valid(&value->accessPolicyWindow);
                a->window = valid ? value->accessPolicyWindow : a->window;
                break;
        case CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY:
                valid = value->syncPolicy >= CU_SYNC_POLICY_AUTO && value->syncPolicy <= CU_SYNC_POLICY_BLOCKING_SYNC;
                a->policy = valid ? value->syncPolicy : a->policy;
                break;
        case CU_STREAM_ATTRIBUTE_PRIORITY:
                valid = object && value->priority <= 0 && value->priority >= -5;
                if (valid)
                        object->priority = value->priority;
                break;
        case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
                valid = value->memSyncDomainMap.default_ < 4 && value->memSyncDomainMap.remote < 4;
                if (valid) {
                        a->map = value->memSyncDomainMap;
                        a->map_set = 1;
                }
                break;
        case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN:
                valid = (unsigned int)value->memSyncDomain <= CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
                a->domain = valid ? value->memSyncDomain : a->domain;
                break;
        default:
                valid = 0;
        }
        return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult get(const struct dcu_stream_attributes *a, const struct dcu_stream *object, CUstreamAttrID attr,
        CUstreamAttrValue *ret)
{
        memset(ret, 0, sizeof(*ret));
        switch ((unsigned int)attr) {
        case CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
                ret->accessPolicyWindow = a->window;
                return CUDA_SUCCESS;
        case CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY:
                ret->syncPolicy = a->policy ? a->policy : CU_SYNC_POLICY_AUTO;
                return CUDA_SUCCESS;
        case CU_STREAM_ATTRIBUTE_PRIORITY:
                ret->priority = object ? object->priority : 0;
                return CUDA_SUCCESS;
        case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
                ret->memSyncDomainMap = a->map;
                if (!a->map_set)
                        ret->memSyncDomainMap.remote = 1;
                return CUDA_SUCCESS;
        case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN:
                ret->memSyncDomain = a->domain;
                return CUDA_SUCCESS;
        default:
                return CUDA_ERROR_INVALID_VALUE;
        }
}

static CUresult access(CUstream stream, CUstreamAttrID attr, const CUstreamAttrValue *value, CUstreamAttrValue *ret)
{
        struct dcu_stream_attributes *a;
        struct dcu_context *context;
        CUresult r = dcu_enter_any(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!value && !ret)
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&dcu.lock);
        a = attributes_of(stream, context, &r);
        if (a && value)
                r = set(a, dcu_object_of(stream, DCU_STREAM), attr, value);
        else if (a)
                r = get(a, dcu_object_of(stream, DCU_STREAM), attr, ret);
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

CUresult cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value_out)
{
        return access(hStream, attr, NULL, value_out);
}

CUresult cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value)
{
        return access(hStream, attr, value, NULL);
}

CUresult cuStreamCopyAttributes(CUstream dst, CUstream src)
{
        struct dcu_stream_attributes *to, *from;
        struct dcu_context *context;
        CUresult r = dcu_enter_any(&context);

        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        to = attributes_of(dst, context, &r);
        from = attributes_of(src, context, &r);
        if (to && from)
                *to = *from;
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

/* No stream belongs to a green context: the daemon decides on which SMs work runs. */
CUresult cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx)
{
        CUcontext context;
        CUresult r = cuStreamGetCtx(hStream, &context);

        if (r == CUDA_SUCCESS && !phCtx)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                *phCtx = NULL;
        return r;
}
