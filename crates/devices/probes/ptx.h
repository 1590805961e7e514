/* Replacement of CUDA's headers for clang without a toolkit: see crates/devices/src/cuda/compile.rs. */
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
struct Index {
    unsigned x;
};
#define threadIdx (Index{(unsigned)__nvvm_read_ptx_sreg_tid_x()})
#define blockIdx (Index{(unsigned)__nvvm_read_ptx_sreg_ctaid_x()})
#define blockDim (Index{(unsigned)__nvvm_read_ptx_sreg_ntid_x()})
#define gridDim (Index{(unsigned)__nvvm_read_ptx_sreg_nctaid_x()})
#define atomicAdd(place, more) __nvvm_atom_add_gen_i((int *)(place), (int)(more))
