# SPDX-License-Identifier: BSL-1.0
# The tests that are written for any device, and of their cases those that are about CPUs.
set(device_tests
    gpu.layouts
    gpu.products
    ops.arrays
    ops.attention
    ops.bounded
    ops.color
    ops.composition_gradients
    ops.copies
    ops.ctc
    ops.cumulative
    ops.draws
    ops.dropout
    ops.einsum
    ops.elementwise_functions
    ops.elementwise_gradients
    ops.every_operation
    ops.extents
    ops.factorizations
    ops.gather
    ops.image_operations
    ops.index_writes
    ops.linear_algebra
    ops.losses
    ops.normalization
    ops.reduction_gradients
    ops.reductions
    ops.regions
    ops.sampling
    ops.rotary
    ops.scan
    ops.sort
    ops.storage_types
    ops.torch_losses
    ops.volumes
    oracle.mixed_precision
    oracle.oracle
    oracle.rows
    session.control_flow
    session.control_flow_capture
    session.control_flow_scan
    session.determinism
    session.random_graphs
    session.session
    session.user_op
    train.all_optimizers
    train.minimize
    train.optimizers)

# A GPU finds a label out of range, and has a NaN for it instead of an error, and a gradient there is a kernel of its
# own; a session with soft placement, as on_gpu.hpp makes them, runs what another task was to run; the others count CPU
# devices, look at their lanes, or expect the order in which a CPU's results are there.
set(leaves_out_session.session
    "a_label_out_of_range a_node_that_names_another_task_is_refused impossible_placements explain_lists_kernels_memory_and_placement \
the_gradient_of_an_activation_runs_with_the_product_before_it lanes_train_what_one_lane_trains \
a_watcher_may_overwrite_what_has_come")

# It needs more memory than an emulated GPU has, and finds that first.
set(leaves_out_ops.sort "an_axis_of_more_elements_than_have_numbers")

# A GPU makes NaNs of a rate that is out of range instead of an error.
set(leaves_out_ops.dropout "a_step_that_throws_is_not_counted")

# A GPU has zeros for a part that begins out of range instead of an error.
set(leaves_out_ops.extents "slices_out_of_range")

# A GPU finds no row where there is none instead of an error; the others count allocations, memory of the host, and lanes.
set(leaves_out_session.control_flow
    "a_branch_that_is_not_taken_does_not_run bodies_allocate_nothing_after_the_first_calls branches_share_their_memory \
a_loop_keeps_what_a_gradient_reads the_same_bits_with_threads_and_lanes graphs_and_steps_show_bodies")

# They count allocations, and compare numbers of threads.
set(leaves_out_ops.bounded "nothing_is_allocated_after_the_first_calls the_same_bits_with_threads")
