//! Scripts with which a site's scheduler or parallel shell measures all nodes, and then ranks the records. Host names
//! have the grammar of [`HostList`]; the words of the command are quoted for a shell.

use crate::node::NODE_LABEL;
use nodegauge_measure::legible;
use nodegauge_toolchain::CommandLine;
use nodegauge_toolchain::mpi::HostList;

/// Scheduler or parallel shell that runs a measurement on many nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FleetTool {
    /// One step of Slurm inside an allocation.
    Slurm,
    /// ReFrame, with the check that nodegauge ships.
    Reframe,
    /// ClusterShell.
    Clush,
    /// pdsh.
    Pdsh,
    /// Ansible, without a playbook.
    Ansible,
    /// Flux.
    Flux,
    /// PBS.
    Pbs,
    /// LSF.
    Lsf,
    /// Kubernetes.
    K8s,
}

nodegauge_measure::names!(
    FleetTool,
    "tool",
    Slurm = "slurm",
    Reframe = "reframe",
    Clush = "clush",
    Pdsh = "pdsh",
    Ansible = "ansible",
    Flux = "flux",
    Pbs = "pbs",
    Lsf = "lsf",
    K8s = "k8s"
);

/// Command that each node runs if the user gives none.
const DEFAULT_COMMAND: [&str; 2] = ["run", "--quick"];
/// Comment in scripts for tools that were not available for a test.
const UNTESTED: &str = "# Written from the manual; not tested with this program.\n";

/// Returns the command that prints only the record of a node on standard output.
pub fn command_for_record(program: &str, command: &[String], record: &str) -> CommandLine {
    let command: Vec<&str> = match command {
        [] => DEFAULT_COMMAND.to_vec(),
        given => given.iter().map(String::as_str).collect(),
    };
    let command = match command.as_slice() {
        ["nodegauge", rest @ ..] => rest.to_vec(),
        all => all.to_vec(),
    };
    let output: &[&str] = match command.first() {
        // Machine descriptions are never saved, and `machine` shows no progress, so it needs fewer options.
        Some(&"machine") => &["--json", record],
        _ => &["--quiet", "--no-save", "--json", record],
    };
    // Words after `--` belong to a user's program.
    let end = command.iter().position(|word| *word == "--").unwrap_or(command.len());
    let (own, of_program) = command.split_at(end);
    CommandLine::new(program, [own, output, of_program].concat())
}

/// Returns a shell script that measures all nodes, writes their records to `folder`, and ranks them.
pub fn script_text(tool: FleetTool, nodes: &[String], folder: &str, command: &[String]) -> String {
    let measure = command_for_record("nodegauge", command, "-");
    // Brackets are quoted because shells expand them, and zsh fails if no file matches.
    let folded = CommandLine::new(HostList::fold_names(nodes), []).to_string();
    let quoted = CommandLine::new(folder, []).to_string();
    let make = format!("mkdir -p {quoted}\n");
    // Programs that pass the command to a shell on the node get it as one quoted word.
    let as_word = CommandLine::new(measure.to_string(), []).to_string();
    let list = nodes.join(" ");
    let lines = match tool {
        FleetTool::Slurm => {
            let words = format!(
                "--nodes={} --ntasks-per-node=1 --exclusive --nodelist={folded} --kill-on-bad-exit=0 --wait=0",
                nodes.len()
            );
            let files = format!(
                "--output={} --error={}",
                quoted_in(folder, "%N.json"),
                quoted_in(folder, "%N.log")
            );
            format!("{make}srun {words} \\\n    {files} \\\n    {measure}\n")
        }
        FleetTool::Reframe => {
            let report = quoted_in(folder, "report.json");
            let options = format!("-J nodelist={folded} --distribute --report-file={report}");
            format!(
                "{make}reframe -c reframe_nodegauge.py -n NodegaugeStream -r \\\n    {options}\n"
            )
        }
        FleetTool::Clush => {
            format!("{make}clush -w {folded} --outdir={quoted} {as_word} > /dev/null\n")
        }
        FleetTool::Pdsh => {
            format!("{make}pdsh -w {folded} {as_word} > {} 2>&1\n", quoted_in(folder, "all.txt"))
        }
        FleetTool::Ansible => {
            // In all versions, the callback `minimal` prints one result per node. `--tree` and `--one-line` are
            // deprecated since ansible-core 2.19; another callback in the configuration is not loaded.
            let hosts = nodes.join(",");
            format!(
                "{make}ANSIBLE_LOAD_CALLBACK_PLUGINS=0 ansible all -i {hosts}, -m command \\\n    \
                 -a {as_word} > {}\n",
                quoted_in(folder, "all.txt")
            )
        }
        FleetTool::Flux => {
            let job = format!(
                "flux submit --nodes=1 --exclusive --requires=\"host:$host\" --output={}\"$host.json\" {measure}",
                quoted_in(folder, "")
            );
            format!("{UNTESTED}{make}for host in {list}; do\n    {job}\ndone\nflux queue drain\n")
        }
        FleetTool::Pbs => {
            let job = format!(
                "qsub -l select=1:host=\"$host\" -l place=excl -j n -o {}\"$host.json\" -- \"$(command -v nodegauge)\" {}",
                quoted_in(folder, ""),
                arguments(&measure)
            );
            format!("{UNTESTED}{make}for host in {list}; do\n    {job}\ndone\n")
        }
        FleetTool::Lsf => {
            let job =
                format!("bsub -m \"$host\" -x -o {}\"$host.out\" {measure}", quoted_in(folder, ""));
            format!("{UNTESTED}{make}for host in {list}; do\n    {job}\ndone\n")
        }
        FleetTool::K8s => return kubernetes(nodes, &measure, &legible::escape_controls(&quoted)),
    };
    let report = if tool == FleetTool::Reframe { quoted_in(folder, "report.json") } else { quoted };
    format!("{lines}nodegauge fleet rank {report} --nodes {folded}\n")
}

/// Returns the path of a file in the folder, quoted for a shell.
fn quoted_in(folder: &str, name: &str) -> String {
    CommandLine::new(format!("{folder}/{name}"), []).to_string()
}

fn arguments(command: &CommandLine) -> String {
    let words = command.arguments().iter().map(|word| CommandLine::new(word.as_str(), []));
    words.map(|word| word.to_string()).collect::<Vec<_>>().join(" ")
}

/// Quotes a text as a YAML string: a JSON string in which characters that end a line only in YAML are escaped.
fn yaml(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    let mut yaml = String::new();
    for c in json.chars() {
        match c {
            '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                yaml.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            other => yaml.push(other),
        }
    }
    yaml
}

/// Returns manifests with one job per node. `folder` must be one line, because a comment contains it.
fn kubernetes(nodes: &[String], measure: &CommandLine, folder: &str) -> String {
    let mut text = format!(
        "{UNTESTED}# kubectl apply -f THIS; then, when the jobs have ended:\n\
         #   mkdir -p {folder}; for job in $(kubectl get jobs -l app=nodegauge -o name); do\n\
         #     kubectl logs \"$job\" > {folder}/\"${{job##*/}}.json\"; done\n\
         #   nodegauge fleet rank {folder}\n"
    );
    for (number, node) in nodes.iter().enumerate() {
        text.push_str(&format!(
            "---\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: nodegauge-{number:04}\n  \
             labels: {{app: nodegauge}}\nspec:\n  backoffLimit: 0\n  template:\n    metadata:\n      \
             labels: {{app: nodegauge}}\n    spec:\n      nodeName: {}\n      restartPolicy: Never\n      \
             containers:\n        - name: nodegauge\n          image: nodegauge:latest\n          \
             command: [{}]\n",
            yaml(node),
            labelled(measure, node).join(", ")
        ));
    }
    text
}

/// Returns the words of a command for YAML, with a label that names the node, because a pod has a host name of its own.
/// `machine` has no labels.
fn labelled(measure: &CommandLine, node: &str) -> Vec<String> {
    let mut words: Vec<String> = measure.words().iter().map(|word| yaml(word)).collect();
    if let Some(at) = measure.words().iter().position(|word| word == "--quiet") {
        words.insert(at, yaml(&format!("--label={NODE_LABEL}={node}")));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(tool: FleetTool) -> String {
        let nodes = ["n01", "n02", "n04"].map(str::to_owned);
        script_text(
            tool,
            &nodes,
            "my fleet",
            &["stream".to_owned(), "--label".to_owned(), "a=b c".to_owned()],
        )
    }

    #[test]
    fn script_comment_stays_on_one_line() {
        let nodes = ["n01".to_owned()];
        for end in ["\n", "\r", "\u{b}", "\u{c}", "\u{85}", "\u{2028}", "\u{2029}"] {
            let folder = format!("o{end}kind: Secret");
            let command = ["stream".to_owned(), format!("--label=a=b{end}kind: Secret")];
            let text = script_text(FleetTool::K8s, &nodes, &folder, &command);
            let is_end = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
            let forged = text.split(is_end).find(|line| line.starts_with("kind: Secret"));
            assert_eq!(forged, None, "{end:?}: {text}");
            assert_eq!(text.matches("kind: Job").count(), 1);
        }
    }

    #[test]
    fn every_script_measures_and_ranks_its_nodes() {
        for tool in FleetTool::ALL {
            let text = lines(*tool);
            assert!(text.contains("nodegauge fleet rank 'my fleet"), "{tool}: {text}");
            if *tool != FleetTool::Reframe {
                assert!(text.contains("--no-save"), "{tool}: {text}");
                assert!(text.contains("n01") || text.contains("n[01-02,04]"), "{tool}: {text}");
            }
        }
        let slurm = lines(FleetTool::Slurm);
        assert!(slurm.contains("--nodelist='n[01-02,04]' "), "{slurm}");
        for tool in FleetTool::ALL {
            let text = lines(*tool).replace("'n[01-02,04]'", "");
            assert!(!text.contains("n["), "{tool}: {text}");
        }
        assert!(
            slurm.contains("nodegauge stream --label 'a=b c' --quiet --no-save --json -"),
            "{slurm}"
        );
        let sweep = ["sweep", "policy=0-5", "--", "./solver", "x"].map(str::to_owned);
        assert_eq!(
            command_for_record("nodegauge", &sweep, "-").to_string(),
            "nodegauge sweep policy=0-5 --quiet --no-save --json - -- ./solver x"
        );
        let kubernetes = lines(FleetTool::K8s);
        assert!(kubernetes.contains("\"--label=node=n04\", \"--quiet\""), "{kubernetes}");
        let ansible = lines(FleetTool::Ansible);
        assert!(ansible.contains("-i n01,n02,n04,"), "{ansible}");
        assert!(
            ansible.contains("> 'my fleet/all.txt'") && !ansible.contains("--tree"),
            "{ansible}"
        );
    }
}
