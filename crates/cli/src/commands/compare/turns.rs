//! Two commands started by turns: A B B A, so that what drifts evenly meets both alike.

use crate::args::{Args, CompareArgs};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::session;
use crate::signals::Signals;
use clap::CommandFactory;
use nodegauge_history::Store;
use nodegauge_measure::Observer;
use nodegauge_measure::compare::{Side, TURNS};
use nodegauge_measure::record::{self, Record};
use nodegauge_os::{KillReason, describe, last_lines};
use nodegauge_toolchain::{CommandLine, Job, ToolchainError, run_with_descendants};
use std::time::Duration;

/// Which side runs when in a block.
const BLOCK: [usize; 4] = [0, 1, 1, 0];
/// Runs end by themselves; a hundred days are no limit.
const LIMIT: Duration = Duration::from_secs(100 * 24 * 3600);
/// Both sides, as far as whole blocks were run, with what is to be said of where they are saved, and the
/// signal that ended it early.
pub(super) struct Turns {
    pub sides: [Side; 2],
    pub saved: Option<String>,
    pub signal: Option<u8>,
}

/// Starts both commands by turns and saves every run.
pub(super) fn measure(commands: &[CommandLine], args: &CompareArgs) -> Result<Turns, Failure> {
    let mut store = match args.no_save {
        true => None,
        false => Some(session::open_store(&args.db)?),
    };
    let signals = Signals::listen()
        .map_err(|cause| Failure::missing(format!("cannot listen for signals: {cause}")))?;
    let mut progress = Progress::new(false, signals.clone(), "compare", None);
    let id = record::new_id();
    let label = |side: usize| format!("{id}-{}", ["A", "B"][side]);
    let jobs = commands.iter().map(|command| job(command, args)).collect::<Result<Vec<_>, _>>()?;
    let mut sides =
        [0, 1].map(|side| Side { asked: commands[side].to_string(), ..Side::default() });
    'blocks: for block in 0..args.blocks {
        for (turn, side) in BLOCK.into_iter().enumerate() {
            let command = &commands[side];
            progress.phase(&format!("block {} of {}: {command}", block + 1, args.blocks));
            progress.progress((f64::from(block) + turn as f64 / 4.0) / f64::from(args.blocks), "");
            let Some(mut run) = record_of(command, &jobs[side], &signals)? else { break 'blocks };
            run.labels.insert(TURNS.to_owned(), label(side));
            if let Some(store) = &mut store {
                store.save(&run)?;
            }
            sides[side].runs.push(run);
        }
    }
    progress.finish();
    let whole = sides.iter().map(|side| side.runs.len() / 2 * 2).min().unwrap_or(0);
    let path = store.as_ref().map(|store: &Store| store.path().display().to_string());
    let runs: usize = sides.iter().map(|side| side.runs.len()).sum();
    let saved = path.map(|path| {
        format!("{runs} runs in {path}, labels {TURNS}={} and {TURNS}={}", label(0), label(1))
    });
    sides.iter_mut().for_each(|side| side.runs.truncate(whole));
    Ok(Turns { sides, saved, signal: signals.received() })
}

/// What is started: the command as it was typed, in its variables, with its record on standard output.
fn job(command: &CommandLine, args: &CompareArgs) -> Result<Job, Failure> {
    let is_variable = |word: &&String| {
        word.split_once('=').is_some_and(|(name, _)| {
            let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
            name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit())
        })
    };
    let words = command.words();
    let variables: Vec<&String> = words.iter().take_while(is_variable).collect();
    let mut rest = words[variables.len()..].iter().peekable();
    let definition = Args::command();
    // A command of nodegauge by its name alone, or with the name before it, is this program.
    let own = rest.peek().is_none_or(|word| {
        word.starts_with('-')
            || *word == definition.get_name()
            || definition.find_subcommand(word).is_some()
    });
    let program = match own {
        true => {
            rest.next_if(|word| *word == definition.get_name());
            let this = std::env::current_exe()
                .map_err(|cause| Failure::missing(format!("cannot find this program: {cause}")))?;
            this.to_string_lossy().into_owned()
        }
        false => rest.next().cloned().unwrap_or_default(),
    };
    let arguments = rest.cloned().chain(["--no-save", "--json", "-"].map(str::to_owned));
    let mut job = Job::new(CommandLine::new(program, arguments), LIMIT);
    let value = |(name, value): (&str, &str)| (name.to_owned(), Some(value.to_owned()));
    job.environment = variables.iter().filter_map(|word| word.split_once('=')).map(value).collect();
    // What runs read of the history, such as what was tuned, is of the one that is meant.
    let db = args.db.db.iter().map(|path| path.to_string_lossy().into_owned());
    job.environment.extend(db.map(|path| ("NODEGAUGE_DB".to_owned(), Some(path))));
    Ok(job)
}

/// Runs a command to its end; `None` when the user ends it.
fn record_of(
    command: &CommandLine,
    job: &Job,
    signals: &Signals,
) -> Result<Option<Record>, Failure> {
    let mut printed = String::new();
    let output = run_with_descendants(job, &mut |lines| {
        printed.push_str(lines);
        signals.received().map(|_| KillReason::Interrupted)
    })
    .map_err(|error| match error {
        ToolchainError::Start { cause, .. } => {
            Failure::missing(format!("cannot start '{command}': {cause}"))
        }
        other => other.into(),
    })?;
    let status = match job.status(&output) {
        Err(ToolchainError::Interrupted) => return Ok(None),
        ended => ended?,
    };
    // What a launcher prints before is none of the record's.
    let text = printed.find('{').map_or("", |start| &printed[start..]);
    match (status.code(), nodegauge_history::parse(text)) {
        // A result that is not valid is one.
        (Some(0 | 1), Ok(record)) => Ok(Some(record)),
        (Some(0), Err(cause)) => Err(Failure::usage(format!(
            "'{command}' prints no record of nodegauge: {cause}\nhint: give commands that measure, such as --run stream 'stream --pages 4k'"
        ))),
        _ => {
            let (status, said) = (describe(status), last_lines(&output.stderr));
            Err(Failure::usage(format!("'{command}' ended with {status}: {said}")))
        }
    }
}
