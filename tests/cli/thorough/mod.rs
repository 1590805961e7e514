//! Tests of the second tier: faults, killed processes, Slurm clusters, stand-ins, and reference programs. `make
//! test-all` runs them; `make test` leaves out every test with `thorough::` in its path.

mod adversarial;
mod apps_mpi;
mod check_faults;
mod check_slurm;
mod control_group;
mod current_folder;
mod device_drivers;
mod examples;
mod fleet;
mod help_examples;
mod hosts;
mod hpl_real;
pub mod io_faults;
mod io_reference;
mod leftovers;
mod mpi_faults;
mod mpi_hosts;
mod mpi_means;
mod osu;
mod own_program;
mod random_signals;
mod read;
mod signals;
pub mod slurm;
mod tasks;
mod unsaved;
mod where_slurm;
