#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's libraries through PyTorch and CuPy: cuBLAS, cuFFT, cuRAND, cuSPARSE, cuSOLVER, NVRTC, NCCL with one
process."""
import os
import sys

import common

RAW = r"""
extern "C" __global__ void smooth(const float *in, float *out, int n, float weight)
{
        __shared__ float tile[258];
        int at = blockIdx.x * 256 + threadIdx.x;
        tile[threadIdx.x + 1] = at < n ? in[at] : 0;
        if (threadIdx.x == 0)
                tile[0] = at ? in[at - 1] : 0;
        if (threadIdx.x == 255)
                tile[257] = at + 1 < n ? in[at + 1] : 0;
        __syncthreads();
        if (at < n)
                out[at] = weight * tile[threadIdx.x + 1] + (1 - weight) * 0.5f * (tile[threadIdx.x] + tile[threadIdx.x + 2]);
}
template<typename T> __global__ void scale(T *data, int n, T by)
{
        for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < n; at += gridDim.x * blockDim.x)
                data[at] *= by;
}
__constant__ float offsets[4];
extern "C" __global__ void shift(float *data, int n)
{
        int at = blockIdx.x * blockDim.x + threadIdx.x;
        if (at < n)
                data[at] += offsets[at % 4];
}
"""


def with_torch(name, quick=False):
    """Decorator for a case whose function returns a step; the step's result is the output."""
    def add(function):
        def prepare(device):
            import torch
            torch.manual_seed(2)
            step = function(torch, device)
            step()
            return common.Prepared(output=step, step=step)
        common.case(f"libs.torch.{name}", quick=quick)(prepare)
        return function
    return add


def with_cupy(name, quick=False):
    def add(function):
        def prepare(device):
            try:
                import cupy
            except ImportError as error:
                raise common.Skipped(f"no cupy: {error}") from error
            import numpy
            step = function(cupy, numpy.random.default_rng(2))
            step()
            return common.Prepared(output=step, step=step)
        common.case(f"libs.cupy.{name}", quick=quick, gpu=True)(prepare)
        return function
    return add


@with_torch("fft", quick=True)
def torch_fft(torch, device):
    x = torch.randn(16, 1024, 30).to(device)
    return lambda: [torch.view_as_real(torch.fft.fft(x, dim=1)), torch.fft.irfft2(torch.fft.rfft2(x)), torch.fft.rfft(x[..., 0], n=997).abs()]


@with_torch("linalg")
def torch_linalg(torch, device):
    a = torch.randn(96, 96).double().to(device)
    s = a @ a.T + 96 * torch.eye(96, device=device, dtype=torch.float64)

    def step():
        return [torch.linalg.solve(a, s), torch.linalg.cholesky(s), torch.linalg.eigvalsh(s), torch.linalg.qr(a)[1].abs(),
                torch.linalg.svdvals(a), torch.linalg.lu_factor(a)[0], torch.linalg.inv(s)]
    return step


@with_torch("linalg_batched")
def torch_linalg_batched(torch, device):
    a = torch.randn(64, 24, 24).to(device)
    return lambda: [torch.linalg.solve(a, a.mT), torch.linalg.det(a), torch.linalg.eigvalsh(a @ a.mT), torch.linalg.svdvals(a)]


@with_torch("sparse")
def torch_sparse(torch, device):
    dense = torch.randn(500, 400) * (torch.rand(500, 400) < 0.05)
    sparse, b = dense.to_sparse_csr().to(device), torch.randn(400, 64).to(device)
    return lambda: [sparse @ b, sparse @ b[:, 0]]


@with_torch("blas")
def torch_blas(torch, device):
    a, b = torch.randn(8, 200, 120).to(device), torch.randn(8, 120, 333).to(device)
    types = [torch.float32, torch.float16, torch.bfloat16, torch.float64]

    def step():
        out = [torch.bmm(a.to(t), b.to(t)) for t in types]
        out.append(torch.addmm(a[0, :, :1].expand(200, 333), a[0], b[0], beta=0.5, alpha=2))
        out.append(torch.view_as_real(torch.matmul(torch.complex(a[0], a[1]), torch.complex(b[0], b[1]))))
        return out + [torch.mv(a[0], b[0, :, 0]), torch.dot(a[0, 0], b[0, :, 0])]
    return step


@with_torch("int8_and_fp8")
def torch_narrow(torch, device):
    if device == "cpu":
        raise common.Skipped("needs a GPU")
    a, b = torch.randint(-8, 8, (64, 128), dtype=torch.int8, device=device), torch.randint(-8, 8, (128, 64), dtype=torch.int8, device=device)
    one = torch.ones((), device=device)
    f, g = torch.randn(64, 128, device=device), torch.randn(64, 128, device=device)

    def step():
        out = [torch._int_mm(a, b)]
        if torch.cuda.get_device_capability() >= (8, 9):
            eight = torch.float8_e4m3fn
            out.append(torch._scaled_mm(f.to(eight), g.to(eight).T, scale_a=one, scale_b=one, out_dtype=torch.bfloat16))
        return out
    return step


@with_torch("random")
def torch_random(torch, device):
    def step():
        torch.manual_seed(11)
        p = torch.rand(1000, device=device)
        return [p, torch.randn(100003, device=device), torch.randint(0, 1000, (5000,), device=device), torch.bernoulli(p),
                torch.poisson(p * 30), torch.multinomial(p, 500), torch.randperm(40000, device=device), torch.empty(999, device=device).exponential_()]
    return step


@with_torch("scans_and_sorts")
def torch_scans(torch, device):
    x = torch.randint(-1000, 1000, (300000,)).to(device)
    return lambda: [x.cumsum(0), x.sort(stable=True)[1], x.unique(return_counts=True)[1], x.topk(100)[0], x.median(), torch.histc(x.float(), 50)]


@with_torch("attention")
def torch_attention(torch, device):
    q, k, v = (torch.randn(2, 8, 256, 64).to(device).half() for _ in range(3))
    return lambda: [torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal) for causal in (False, True)]


@with_torch("recurrent")
def torch_recurrent(torch, device):
    """cuDNN's LSTM and GRU."""
    nets = [torch.nn.LSTM(64, 128, 2).to(device).eval(), torch.nn.GRU(64, 128).to(device).eval()]
    x = torch.randn(30, 8, 64).to(device)

    def step():
        with torch.no_grad():
            return [net(x)[0] for net in nets]
    return step


@with_torch("convolutions")
def torch_convolutions(torch, device):
    x, y = torch.randn(2, 16, 30, 30).to(device), torch.randn(2, 8, 12, 12, 12).to(device)
    layers = [(torch.nn.Conv2d(16, 32, 3, groups=4), x), (torch.nn.Conv2d(16, 16, 5, dilation=2), x), (torch.nn.ConvTranspose2d(16, 8, 3, 2), x),
              (torch.nn.Conv3d(8, 16, 3), y), (torch.nn.Conv2d(16, 16, 3, groups=16, padding=1), x)]
    layers = [(layer.to(device), data) for layer, data in layers]

    def step():
        with torch.no_grad():
            return [layer(data) for layer, data in layers]
    return step


@common.case("libs.torch.nccl", fresh=True, gpu=True, seconds=120)
def torch_nccl(device):
    """NCCL with one process: the operations that work on one GPU."""
    import torch
    import torch.distributed as distributed
    if not distributed.is_nccl_available():
        raise common.Skipped("this PyTorch has no NCCL")
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    path = os.path.join(os.environ.get("COMPARE_TMP", "/tmp"), f"nccl.{os.getpid()}")
    distributed.init_process_group("nccl", init_method=f"file://{path}", rank=0, world_size=1, device_id=torch.device("cuda:0"))
    x = torch.arange(1 << 20, dtype=torch.float32, device=device)

    def step():
        y = x.clone()
        distributed.all_reduce(y)
        distributed.broadcast(y, 0)
        parts = [torch.empty_like(y)]
        distributed.all_gather(parts, y)
        return parts
    step()
    return common.Prepared(output=step, step=step)


@with_cupy("blas", quick=True)
def cupy_blas(cupy, rng):
    a, b = (cupy.asarray(rng.standard_normal((300, 300), "float32")) for _ in range(2))
    return lambda: [a @ b, (a.astype("float16") @ b.astype("float16")), a.astype("float64") @ b, a @ b[0], cupy.einsum("ij,jk->k", a, b)]


@with_cupy("fft")
def cupy_fft(cupy, rng):
    x = cupy.asarray(rng.standard_normal((32, 512), "float32"))
    return lambda: [cupy.fft.fft(x), cupy.fft.rfft2(x), cupy.fft.ifft(cupy.fft.fft(x.astype("float64")))]


@with_cupy("random")
def cupy_random(cupy, rng):
    """cuRAND's host generators and device generators."""
    def step():
        out = []
        for method in (cupy.cuda.curand.CURAND_RNG_PSEUDO_XORWOW, cupy.cuda.curand.CURAND_RNG_PSEUDO_PHILOX4_32_10,
                       cupy.cuda.curand.CURAND_RNG_PSEUDO_MRG32K3A, cupy.cuda.curand.CURAND_RNG_PSEUDO_MT19937):
            state = cupy.random.RandomState(5, method=method)
            out += [state.random_sample(10001), state.standard_normal(10001, dtype="float32")]
        generator = cupy.random.Generator(cupy.random.XORWOW(5))
        return out + [generator.standard_normal(5000), generator.integers(0, 100, 5000)]
    return step


@with_cupy("sparse")
def cupy_sparse(cupy, rng):
    import cupyx.scipy.sparse as sparse
    dense = rng.standard_normal((300, 200)) * (rng.random((300, 200)) < 0.05)
    matrix = sparse.csr_matrix(cupy.asarray(dense))
    x = cupy.asarray(rng.standard_normal((200, 16)))
    return lambda: [matrix @ x, matrix @ x[:, 0], (matrix @ matrix.T).todense(), matrix.T.tocsr().todense()]


@with_cupy("solver")
def cupy_solver(cupy, rng):
    a = cupy.asarray(rng.standard_normal((80, 80)))
    s = a @ a.T + 80 * cupy.eye(80)
    return lambda: [cupy.linalg.solve(a, s), cupy.linalg.cholesky(s), cupy.linalg.eigvalsh(s), cupy.linalg.svd(a, compute_uv=False),
                    cupy.abs(cupy.linalg.qr(a)[1])]


@with_cupy("elementwise")
def cupy_elementwise(cupy, rng):
    x = cupy.asarray(rng.standard_normal(100003, "float32"))
    own = cupy.ElementwiseKernel("float32 a, float32 b", "float32 c", "c = a * a + 3 * b", "detshare_own")
    total = cupy.ReductionKernel("float32 a", "float32 c", "a * a", "a + b", "c = a", "0", "detshare_sum")
    return lambda: [own(x, x + 1), total(x), cupy.sort(x), cupy.cumsum(x), x.argsort(), cupy.histogram(x, 20)[0]]


@with_cupy("raw_kernels", quick=True)
def cupy_raw(cupy, rng):
    """Code that NVRTC compiles: shared memory, templates, and a constant that the host writes."""
    import numpy
    module = cupy.RawModule(code=RAW, options=("-std=c++17",), name_expressions=("scale<double>",))
    smooth, shift = module.get_function("smooth"), module.get_function("shift")
    doubles = module.get_function("scale<double>")
    x = cupy.asarray(rng.standard_normal(100003, "float32"))
    out = cupy.empty_like(x)
    memory = module.get_global("offsets")
    cupy.ndarray((4,), "float32", memory)[:] = cupy.asarray([1, 2, 3, 4], "float32")

    def step():
        smooth(((x.size + 255) // 256,), (256,), (x, out, x.size, numpy.float32(0.75)))
        shift(((x.size + 255) // 256,), (256,), (out, x.size))
        y = x.astype("float64")
        doubles((30,), (128,), (y, y.size, 2.5))
        return [out, y]
    return step


@with_cupy("streams_and_graphs")
def cupy_streams(cupy, rng):
    x = cupy.asarray(rng.standard_normal(50000, "float32"))
    stream = cupy.cuda.Stream(non_blocking=True)
    out = cupy.empty_like(x)
    own = cupy.ElementwiseKernel("float32 a", "float32 b", "b = a * 2 + 1", "detshare_graph")
    own(x, out)
    cupy.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        own(x, out)
        own(out, out)
        graph = stream.end_capture()

    def step():
        graph.launch(stream)
        stream.synchronize()
        return out
    return step


@with_cupy("memory")
def cupy_memory(cupy, rng):
    """CuPy's memory pool, the stream-ordered pool, pinned and managed memory."""
    import numpy
    source = rng.standard_normal(50000).astype("float32")

    def step():
        out = []
        for allocator in (cupy.cuda.MemoryPool().malloc, cupy.cuda.MemoryAsyncPool().malloc, cupy.cuda.MemoryPool(cupy.cuda.malloc_managed).malloc):
            with cupy.cuda.using_allocator(allocator):
                out.append((cupy.asarray(source) * 3).get())
        pinned = cupy.cuda.alloc_pinned_memory(source.nbytes)
        host = numpy.frombuffer(pinned, "float32", source.size)
        host[:] = source
        return out + [cupy.asarray(host) + 1]
    return step


if __name__ == "__main__":
    sys.exit(common.main())
