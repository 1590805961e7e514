//! Evidence for the figures: their configuration, and reasons why they are suspect.

use super::{SMALL, ShownFigure};
use crate::curve::CurveJump;
use crate::transport::Fabric;
use nodegauge_gauge::view::sentence::enumeration;
use nodegauge_gauge::view::words::count_with_noun;
use nodegauge_gauge::view::{NamedFigure, Section, group_by_key};
use nodegauge_measure::record::Status;
use nodegauge_measure::{Bytes, Fraction, Seconds, Unit};

/// Maximum number of figures that are listed per reason.
const SHOWN: usize = 3;

/// Adds the notes on how the figures were measured.
pub(super) fn add_notes(section: &mut Section, all: &[&ShownFigure<'_>], brief: bool) {
    for (library, own) in group_by_key(all, |figure| figure.library()) {
        if own[0].is_own() {
            let fabric = own[0].config.engine.as_deref().and_then(|name| name.parse().ok());
            let title = fabric.map_or("own transport", Fabric::title);
            let routes = if fabric == Some(Fabric::Shm) { routes(&own) } else { String::new() };
            let routes = if routes.is_empty() { routes } else { format!(": {routes}") };
            section.note("how", format!("{library}: nodegauge's own {title}{routes}"));
            continue;
        }
        // A measured figure is preferred, because the transport of a failed start is unknown.
        let first = own.iter().find(|figure| figure.m.summary.is_some()).unwrap_or(&own[0]);
        let mpi = first.config.mpi.clone().unwrap_or_default();
        if mpi.library.is_none() && mpi.mpicc.is_some() {
            // This MPI was specified but cannot be used; the notes on validity contain the reason.
            continue;
        }
        let mut parts = vec![library];
        parts.extend(mpi.device.map(|device| format!("device {device}")));
        parts.push(mpi.transport.unwrap_or_else(|| "transport unknown".to_owned()));
        parts.extend(mpi.compiler.filter(|_| !brief));
        parts.extend(mpi.chosen);
        section.note("how", parts.join(", "));
    }
    if brief {
        return;
    }
    if all.iter().any(|figure| figure.config.floor.is_some_and(|floor| floor.is_bound())) {
        section.note(
            "",
            "floor: time of nodegauge's own shared-memory transport on the same cores, \
             interleaved; of floor: the MPI's performance as a share of it",
        );
    }
    if let Some(rate) = all
        .iter()
        .find(|figure| figure.m.unit == Unit::BytesPerSecond && figure.m.summary.is_some())
    {
        let buffers = match (rate.config.buffers.as_deref(), &rate.config.hosts) {
            (Some("multiple"), _) => "a buffer for each message",
            (_, Some(_)) => "one buffer",
            _ => "one buffer, so that rates within a node are cache rates",
        };
        let window = count_with_noun(rate.config.window.unwrap_or(0), "message");
        section.note("", format!("windows of {window}, {buffers}"));
    }
    if let Some(first) = all.iter().find(|figure| {
        figure.config.p99.is_some() && figure.m.unit == Unit::Seconds && !figure.is_collective()
    }) {
        let text = format!("min, median, p99 and max of the batch means of {}", first.m.name);
        section.note("", text);
    }
    if let Some(trip) = all.iter().find_map(|figure| figure.config.round_trip_s) {
        let text = format!(
            "us: half the round-trip time of {SMALL} B; the transfer of one cache line takes {}",
            Seconds(trip / 2.0)
        );
        section.note("", text);
    }
}

/// Returns a text with the sizes for which the lower bound is not shown, because the MPI is faster; `None` if there are
/// none.
pub(super) fn beaten_lower_bounds(own: &[&ShownFigure<'_>]) -> Option<String> {
    let mut sizes: Vec<String> = Vec::new();
    let mut max: f64 = 0.0;
    for figure in own {
        let Some(floor) = figure.config.floor.filter(|floor| !floor.is_bound()) else { continue };
        let size = Bytes(figure.config.message_bytes.unwrap_or(0));
        sizes.push(format!("{} {size}", figure.m.name));
        max = max.max(floor.share.0);
    }
    if sizes.is_empty() {
        return None;
    }
    let sizes = if sizes.len() > SHOWN {
        format!("{} and {} more", sizes[..SHOWN].join(", "), sizes.len() - SHOWN)
    } else {
        enumeration(&sizes)
    };
    Some(format!(
        "{sizes}: the MPI is up to {max:.1} times as fast as nodegauge's own transport, which was disturbed or is slower for these sizes"
    ))
}

/// Returns the routes of messages of the built-in transport, e.g. `ring to 8 KiB, process_vm_readv from 16 KiB`.
fn routes(own: &[&&ShownFigure<'_>]) -> String {
    let first = own.first().map(|figure| figure.m.name.clone());
    let of_first = own.iter().filter(|figure| Some(&figure.m.name) == first.as_ref());
    let taken: Vec<(&str, u64)> = of_first
        .filter_map(|figure| Some((figure.config.route.as_deref()?, figure.config.message_bytes?)))
        .collect();
    let ranges: Vec<&[(&str, u64)]> = taken.chunk_by(|a, b| a.0 == b.0).collect();
    let mut words = Vec::new();
    for (at, range) in ranges.iter().enumerate() {
        let (route, smallest) = range[0];
        let from = Bytes(smallest);
        let to = Bytes(range[range.len() - 1].1);
        words.push(match at {
            _ if ranges.len() == 1 => route.to_owned(),
            0 => format!("{route} to {to}"),
            _ if at + 1 == ranges.len() => format!("{route} from {from}"),
            _ if range.len() == 1 => format!("{route} at {from}"),
            _ => format!("{route} at {from} to {to}"),
        });
    }
    words.join(", ")
}

/// Adds each reason why figures are suspect once, with the figures to which it applies.
pub(super) fn add_doubts(section: &mut Section, all: &[&ShownFigure<'_>]) {
    let doubted = all.iter().filter(|figure| figure.m.validity.status != Status::Valid);
    section.push_named_doubts(doubted.map(|figure| named(figure)));
}

/// Returns a figure with its name and the size of its messages.
fn named<'f>(figure: &ShownFigure<'f>) -> NamedFigure<'f> {
    let size = figure.config.message_bytes.map(|bytes| format!(" {}", Bytes(bytes)));
    NamedFigure { name: format!("{}{}", figure.m.name, size.unwrap_or_default()), m: figure.m }
}

/// Describes a curve: the change of protocol, the jumps and dips, and the parameters of Hockney's model.
pub(super) fn curve_in_words(figure: &ShownFigure<'_>) -> Option<String> {
    let curve = figure.config.curve.as_ref()?;
    let mut parts: Vec<String> = Vec::new();
    let rendezvous = curve.rendezvous();
    if let Some((bytes, source)) = rendezvous {
        parts.push(format!("eager to rendezvous at {} ({source})", Bytes(bytes)));
    }
    for CurveJump { bytes, leap, .. } in &curve.switches {
        parts.push(format!("a jump at {} (x {leap:.1})", Bytes(*bytes)));
    }
    for bytes in &curve.dips {
        parts.push(format!("{} takes longer than the sizes around it", Bytes(*bytes)));
    }
    for fit in &curve.hockney {
        parts.push(format!(
            "{} to {}: {} + bytes / {}, n1/2 {}, within {}",
            Bytes(fit.from_bytes),
            Bytes(fit.to_bytes),
            fit.latency_s,
            fit.bytes_per_s,
            Bytes(fit.half_bytes as u64),
            Fraction(fit.error).in_whole_percent()
        ));
    }
    if rendezvous.is_none() && !parts.is_empty() {
        parts.push("switch from eager to rendezvous unknown".to_owned());
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}
