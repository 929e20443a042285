/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a graph as a DOT file
 *
 * One box per node, with its number, kind and operands; child graphs are clusters. Flags add parameters, attributes and
 * handles.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cuda/capture.h"
#include "cuda/graph.h"
#include "cuda/module.h"

#define KNOWN_FLAGS                                                                                                  \
        (CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE | CU_GRAPH_DEBUG_DOT_FLAGS_RUNTIME_TYPES |                                 \
                CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS | CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS |          \
                CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS | CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS |            \
                CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS | CU_GRAPH_DEBUG_DOT_FLAGS_EXT_SEMAS_SIGNAL_NODE_PARAMS | \
                CU_GRAPH_DEBUG_DOT_FLAGS_EXT_SEMAS_WAIT_NODE_PARAMS |                                                \
                CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_ATTRIBUTES | CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES |                 \
                CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS | CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS |     \
                CU_GRAPH_DEBUG_DOT_FLAGS_BATCH_MEM_OP_NODE_PARAMS | CU_GRAPH_DEBUG_DOT_FLAGS_EXTRA_TOPO_INFO |       \
                CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS)

struct dot {
        FILE *file;
        unsigned int flags;
};

static int wants(const struct dot *dot, unsigned int flag)
{
        return (dot->flags & (flag | CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE)) != 0;
}

static const char *kind_name(CUgraphNodeType type)
{
        static const char *const names[] = {"KERNEL", "MEMCPY", "MEMSET", "HOST", "GRAPH", "EMPTY", "WAIT_EVENT",
                "EVENT_RECORD", "EXT_SEMAS_SIGNAL", "EXT_SEMAS_WAIT", "MEM_ALLOC", "MEM_FREE", "BATCH_MEM_OP"};

        return (unsigned int)type < sizeof(names) / sizeof(names[0]) ? names[type] : "?";
}

/* Kernel names come from the program: characters with a meaning in DOT are escaped. */
static void put_text(const struct dot *dot, const char *text)
{
        for (; *text; text++) {
                if (strchr("\"\\{}|<>", *text))
                        fputc('\\', dot->file);
                fputc(*text, dot->file);
        }
}

static void put_kernel(const struct dot *dot, const struct dcu_kernel_work *kernel)
{
        struct dcu_context *owner;
        const struct dcu_entry *entry =
                dcu_entry_of(kernel->function ? kernel->function : (CUfunction)kernel->kernel, &owner);

        fputs("\\n", dot->file);
        put_text(dot, entry ? entry->info.name : "(unloaded)");
        if (wants(dot, CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS))
                fprintf(dot->file, "\\ngrid %u %u %u\\nblock %u %u %u\\nshared %u", kernel->grid[0], kernel->grid[1],
                        kernel->grid[2], kernel->block[0], kernel->block[1], kernel->block[2], kernel->shared_bytes);
        if (wants(dot, CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
                fprintf(dot->file, "\\nfunction %p",
                        (void *)(kernel->function ? kernel->function : (CUfunction)kernel->kernel));
        for (uint32_t i = 0; wants(dot, CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_ATTRIBUTES) && i < kernel->n_attributes;
                i++)
                fprintf(dot->file, "\\nattribute %d", (int)kernel->attributes[i].id);
}

static void put_copy(const struct dot *dot, const CUDA_MEMCPY3D *copy)
{
        static const char sides[] = "?HDAU";

        fprintf(dot->file, "\\n%cto%c", sides[copy->srcMemoryType & 3], sides[copy->dstMemoryType & 3]);
        if (wants(dot, CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS))
                fprintf(dot->file, "\\n%zu x %zu x %zu\\nsrc %p %#llx pitch %zu\\ndst %p %#llx pitch %zu",
                        copy->WidthInBytes, copy->Height, copy->Depth, copy->srcHost,
                        (unsigned long long)copy->srcDevice, copy->srcPitch, copy->dstHost,
                        (unsigned long long)copy->dstDevice, copy->dstPitch);
}

static void put_work(const struct dot *dot, const struct dcu_work *work)
{
        switch (work->type) {
        case CU_GRAPH_NODE_TYPE_KERNEL:
                put_kernel(dot, &work->kernel);
                break;
        case CU_GRAPH_NODE_TYPE_MEMCPY:
                put_copy(dot, &work->copy);
                break;
        case CU_GRAPH_NODE_TYPE_MEMSET:
                if (wants(dot, CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS))
                        fprintf(dot->file, "\\n%#llx pitch %zu\\nvalue %#x of %u\\n%zu x %zu",
                                (unsigned long long)work->memset.dst, work->memset.pitch, work->memset.value,
                                work->memset.elementSize, work->memset.width, work->memset.height);
                break;
        case CU_GRAPH_NODE_TYPE_HOST:
                if (wants(dot, CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS))
                        fprintf(dot->file, "\\nfn %p(%p)", (void *)work->host.fn, work->host.userData);
                break;
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
                if (wants(dot, CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS))
                        fprintf(dot->file, "\\nevent %p", (void *)work->event);
                break;
        case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        case CU_GRAPH_NODE_TYPE_MEM_FREE:
                if (wants(dot, CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS |
                                       CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS))
                        fprintf(dot->file, "\\n%#llx, %zu bytes", (unsigned long long)work->memory.params.dptr,
                                work->memory.params.bytesize);
                break;
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
                if (wants(dot, CU_GRAPH_DEBUG_DOT_FLAGS_BATCH_MEM_OP_NODE_PARAMS))
                        fprintf(dot->file, "\\n%u operations", work->memops.count);
                break;
        default:
                break;
        }
}

static void put_graph(const struct dot *dot, const struct dcu_graph *graph)
{
        fprintf(dot->file, "subgraph cluster_%llu {\nlabel=\"graph_%llu\" graph[style=\"dashed\"];\n", graph->id,
                graph->id);
        for (uint32_t i = 0; i < graph->n_nodes; i++) {
                const struct dcu_node *node = graph->nodes[i];

                fprintf(dot->file, "\"graph_%llu_node_%u\" [shape=\"box\" label=\"%u\\n%s", graph->id, i, i,
                        kind_name(node->work->type));
                put_work(dot, node->work);
                if (wants(dot, CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
                        fprintf(dot->file, "\\nnode %p", dcu_handle(node));
                fputs("\"];\n", dot->file);
        }
        for (uint32_t i = 0; i < graph->n_nodes; i++) {
                const struct dcu_node *node = graph->nodes[i];

                for (uint32_t k = 0; k < node->n_deps; k++)
                        fprintf(dot->file, "\"graph_%llu_node_%u\" -> \"graph_%llu_node_%u\";\n", graph->id,
                                node->deps[k].node->index, graph->id, i);
                if (node->work->type == CU_GRAPH_NODE_TYPE_GRAPH)
                        put_graph(dot, node->work->child);
        }
        fputs("}\n", dot->file);
}

CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)
{
        struct dot dot = {.flags = flags};
        const struct dcu_graph *graph;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!path || !dcu_graph_of(hGraph) || (flags & ~(unsigned int)KNOWN_FLAGS))
                return CUDA_ERROR_INVALID_VALUE;
        dot.file = fopen(path, "we");
        if (!dot.file)
                return CUDA_ERROR_OPERATING_SYSTEM;
        pthread_mutex_lock(&dcu.lock);
        graph = dcu_graph_of(hGraph);
        if (graph) {
                fputs("digraph dot {\n", dot.file);
                put_graph(&dot, graph);
                fputs("}\n", dot.file);
        }
        pthread_mutex_unlock(&dcu.lock);
        r = ferror(dot.file) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
        if (fclose(dot.file) != 0)
                r = CUDA_ERROR_OPERATING_SYSTEM;
        return graph ? r : CUDA_ERROR_INVALID_VALUE;
}
