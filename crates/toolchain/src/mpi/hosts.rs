//! How launchers are told to start the same number of ranks on each of some hosts. Pure.

use super::LauncherKind;

/// Ranks on hosts, the same number on each, bound to cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostRanks<'a> {
    /// Their names.
    pub hosts: &'a [String],
    /// Ranks on each.
    pub each: usize,
    /// Cores of a rank; `None` leaves them to the launcher.
    pub threads: Option<usize>,
}

impl HostRanks<'_> {
    /// The launcher's arguments.
    pub fn arguments(&self, launcher: LauncherKind) -> Vec<String> {
        let Self { hosts, each, threads } = *self;
        let (nodes, ranks) = (hosts.len(), hosts.len() * each);
        let names = hosts.join(",");
        let text = match launcher {
            LauncherKind::OpenMpi => {
                let slots: Vec<String> =
                    hosts.iter().map(|host| format!("{host}:{each}")).collect();
                let map = threads
                    .map_or("node".to_owned(), |threads| format!("ppr:{each}:node:PE={threads}"));
                let slots = slots.join(",");
                format!("-np {ranks} --host {slots} --map-by {map} --bind-to core")
            }
            LauncherKind::Hydra => {
                let cores = threads.map_or(String::new(), |threads| format!(":{threads}"));
                format!("-np {ranks} -ppn {each} -hosts {names} -bind-to core{cores}")
            }
            LauncherKind::Slurm => {
                let cores =
                    threads.map_or(String::new(), |threads| format!(" --cpus-per-task={threads}"));
                format!(
                    "--nodes={nodes} --ntasks={ranks} --ntasks-per-node={each}{cores} --nodelist={names} --cpu-bind=cores"
                )
            }
        };
        // Names of hosts hold no spaces.
        text.split(' ').map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_launcher_has_its_own_words() {
        let hosts = ["a".to_owned(), "b".to_owned()];
        let words = |kind, each, threads| {
            HostRanks { hosts: &hosts, each, threads }.arguments(kind).join(" ")
        };
        assert_eq!(
            words(LauncherKind::OpenMpi, 2, Some(3)),
            "-np 4 --host a:2,b:2 --map-by ppr:2:node:PE=3 --bind-to core"
        );
        assert_eq!(
            words(LauncherKind::OpenMpi, 1, None),
            "-np 2 --host a:1,b:1 --map-by node --bind-to core"
        );
        assert_eq!(
            words(LauncherKind::Hydra, 2, Some(3)),
            "-np 4 -ppn 2 -hosts a,b -bind-to core:3"
        );
        assert_eq!(
            words(LauncherKind::Slurm, 2, Some(3)),
            "--nodes=2 --ntasks=4 --ntasks-per-node=2 --cpus-per-task=3 --nodelist=a,b --cpu-bind=cores"
        );
    }
}
