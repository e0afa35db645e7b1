"""DDP tests shipped with torch, every DistributedDataParallel with our hook, 2 ranks on CPU.

What runs is listed here; each must hand buckets to the hook. Of the DDP tests in
torch.testing._internal.distributed.distributed_test these are left out:

* tests that install a hook or a fused optimizer of their own (accumulate_gradients_no_sync_*_hook,
  hook_parity_powerSGD and _post_localSGD, apply_optim_in_backward*, native_mixed_precision*,
  comm_hook_logging, hook_pickling_powerSGD, hook_with_optimizer_parity_*): DDP takes one hook. The
  parity of ours is test_hook_parity below.
* ddp_grad_div_uneven_inputs: Join(divide_by_initial_world_size=False) has no effect on any hook,
  torch's own allreduce_hook fails it, too.
* ddp_profiling_*: they count the default all-reduce in a profile, which is not called.
* tests of GPU placement or SyncBatchNorm (device, inference, sync_bn_*, *_SyncBatchNorm_*,
  shared_grad_acc_unused_params, logging_data_gpu, uneven_inputs*), and those torch itself skips.
* ddp_multiple_nested_unused_params_error: plain DDP crashes in it on CPU (torch 2.13).
* tests that end before the first gradient is averaged.
"""

import pytest

from tests.hooks.shipped import run_hook_parity, run_shipped

DDP_TESTS = [
    "DistributedDataParallelCPU",
    "DistributedDataParallelCPU_grad_is_view",
    "accumulate_gradients_no_sync",
    "accumulate_gradients_no_sync_grad_is_view",
    "ddp_broadcast_buffer",
    "ddp_broadcast_buffer_via_hook",
    "ddp_bucket_cap_mb_list",
    "ddp_buffer_hook_allreduce",
    "ddp_buffer_hook_allreduce_return_future",
    "ddp_control_flow_different_across_ranks",
    "ddp_control_flow_same_across_ranks",
    "ddp_create_graph",
    "ddp_forward_backward_hook",
    "ddp_ignore_params_arg",
    "ddp_init_sync_buffers_with_forward_sync_buffers_false",
    "ddp_join_model_equivalence",
    "ddp_join_respects_forward_sync_buffers_false",
    "ddp_logging_data_cpu",
    "ddp_new_tensor_in_fwd",
    "ddp_new_tensor_in_fwd_static_graph",
    "ddp_remove_autograd_hooks",
    "ddp_returns_tensor_with_no_grad",
    "ddp_sink_noclone",
    "ddp_static_graph_nested_types",
    "ddp_uneven_input_join_disable",
    "detect_ddp_is_actually_static",
    "different_graph_across_ranks",
    "invalid_static_graph",
    "output_unused_in_loss_dict_module",
    "output_unused_in_loss_tuple_module",
    "skip_all_reduce_unused_parameters",
    "static_graph_api_cpu",
    "static_graph_multi_forward",
    "undefined_grad_parity_unused_parameters",
]


@pytest.mark.parametrize("name", DDP_TESTS)
def test_shipped(processes, name):
    assert min(processes.run(2, run_shipped, f"test_{name}")) > 0, "the hook was never called"


@pytest.mark.slow
def test_shipped_compile_static_graph(processes):
    buckets = processes.run(2, run_shipped, "test_ddp_compile_static_graph", timeout_s=120)
    assert min(buckets) > 0


@pytest.mark.parametrize("ranks", [2, 4])
def test_hook_parity(processes, ranks):
    """Torch's _test_ddp_hook_parity: 100 iterations against plain DDP and the exact average."""
    assert processes.run(ranks, run_hook_parity) == [100] * ranks
