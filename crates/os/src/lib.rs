//! Operating-system services, each with a single implementation: memory on pages of a chosen size (with a query for
//! the size that the kernel used), barriers for threads and for processes, child processes with time limits,
//! affinity and NUMA policy, waits, input and output files of the user, libraries loaded at run time, signals. Of
//! nodegauge's crates, this crate depends only on the table of MPI ABIs, which it exports as `mpi_abi`.
//!
//! Every resource is owned and released by its type. Every foreign call that fails returns a [`SysError`] with the name
//! of the call and its error number.

mod affinity;
mod allocator;
mod barrier;
mod blocked_write;
mod bus_error;
mod call;
mod child;
mod child_place;
mod end_request;
mod fork;
mod helpers;
mod input;
mod library;
mod mapping;
mod memory_program;
mod numa;
mod output;
mod own_program;
mod parallel;
mod process_memory;
mod ring;
mod signal_delay;
mod smaps;
mod spin;
mod stack_limit;
mod status;
mod system;
mod trusted;
mod trusted_folder;
mod wait;

pub use affinity::{affinity, set_affinity, set_affinity_to_all};
pub use allocator::{ExitingAllocator, share_arena_if_limited};
pub use barrier::{Barrier, CacheLine, PoisonedBarrier, ProcessBarrier, SpinBarrier};
pub use blocked_write::{write_all, write_within};
pub use bus_error::BusErrorGuard;
pub use call::{SysError, check};
pub use child::{
    ChildEnd, ChildError, ChildLimits, ChildOutput, KillOnDrop, KillReason, kill_descendants,
    run_child,
};
pub use child_place::{ChildPlace, disable_transparent_huge_pages};
pub use end_request::{end_request_flag, is_end_requested};
pub use fork::{
    AnswerLimits, ChildAnswer, ForkedChild, ask_child, check_single_threaded, fork,
    receive_from_children,
};
pub use helpers::{remaining_helper_time, set_helper_deadline};
pub use input::{Input, MAX_PROGRAM_BYTES, MAX_TEXT_BYTES, read_file, read_input, read_range};
pub use library::{LoadError, SharedLibrary};
pub use mapping::{Buffer, MapError, Mapping, PageSize, SharedBytes};
pub use memory_program::{InMemoryProgram, descriptor_path};
pub use nodegauge_abi as mpi_abi;
pub use numa::{PolicyMode, mbind, page_numa_nodes, policy_at, set_thread_policy, thread_policy};
pub use output::{OutputError, OutputFile, are_same_file, resolve_links};
pub use own_program::{own_program, own_program_file, set_process_name, with_own_program};
pub use parallel::map_in_parallel;
pub use process_memory::{allow_memory_reads, read_process_memory};
pub use ring::{Arrival, Ring, RingReader, RingWriter, WrongLength};
pub use signal_delay::SignalDelay;
pub use spin::Spin;
pub use stack_limit::StackLimit;
pub use status::{describe_exit_status, describe_launcher_status, is_memory_fault};
pub use system::{
    SystemMemory, deny_writes_to_new_files, effective_user_id, end_process, end_with_parent,
    environment_variable, huge_page_bytes, ignore_interrupts, interrupt_this_process,
    is_hangup_ignored, is_root, lower_priority, may_read_and_write, monotonic_nanos, page_bytes,
    preserve_signal_actions, process_and_thread_ids, system_memory,
};
pub use trusted::{TrustError, check_trusted, read_trusted_file, read_trusted_input};
pub use trusted_folder::{FolderTrustError, OtherUserRights, TrustedFolder, check_rights};
pub use wait::{
    Wait, WaitEnd, is_readable_within, wait_for_event, wait_until, wait_whole_time,
    wait_without_limit,
};
