//! Summary bars of a node: the headline figures of each gauge in percent of their limits, compared with another node,
//! whose name is shown.

use nodegauge_gauge::view::{Bar, Beside, Card};
use nodegauge_gauge::{Gauge, Headline};
use nodegauge_measure::record::{Measurement, Record};
use nodegauge_published::{self as published, PublishedConfig};

/// Returns the bars of a record. A figure is compared with a published figure of the same processor, from the record or
/// the catalog. Without a published figure, it is compared with the first record in `others` that contains the figure.
pub(crate) fn card(record: &Record, gauges: &[&dyn Gauge], others: &[Record]) -> Card {
    let nearest = published::nearest(&record.machine, 0);
    let nearest = nearest.map(|node| node.measurements(None, "nearest")).unwrap_or_default();
    let of_gauge = |gauge: &&dyn Gauge| {
        let theirs: Vec<(&Record, Vec<Headline<'_>>)> =
            others.iter().map(|other| (other, gauge.headlines(other))).collect();
        let bar = |headline: Headline<'_>| {
            let beside = headline.figure.and_then(|own| {
                let known = record.measurements.iter().chain(&nearest);
                published_beside(own, known)
                    .or_else(|| saved_beside(headline, own, record, &theirs))
            });
            bar(headline, beside)
        };
        gauge.headlines(record).into_iter().map(bar).collect::<Vec<_>>()
    };
    Card { bars: gauges.iter().flat_map(of_gauge).collect() }
}

fn bar(Headline { title, what, figure }: Headline<'_>, beside: Option<Beside>) -> Bar {
    let limit = figure.and_then(|m| m.limit.as_ref());
    let doubted = figure.filter(|m| !m.validity.reasons.is_empty());
    let doubt = doubted.map(|m| format!("; {}", m.validity.status.name())).unwrap_or_default();
    Bar {
        title: title.to_owned(),
        what: format!("{what}{doubt}"),
        value: figure.map(Measurement::in_words),
        share: limit.map(|limit| limit.fraction),
        limit: limit.zip(figure).map_or_else(
            || "no limit is known".to_owned(),
            |(limit, m)| format!("{}, {}", m.unit.in_words(limit.value), limit.basis),
        ),
        beside,
    }
}

fn beside(name: String, own: &Measurement, theirs: &Measurement) -> Option<Beside> {
    let value = theirs.value?;
    Some(Beside {
        name,
        value: theirs.in_words(),
        share: theirs.limit.as_ref().map(|limit| limit.fraction),
        ratio: own.value.map(|own| own / value).filter(|ratio| ratio.is_finite()),
    })
}

fn published_beside<'a>(
    own: &Measurement,
    mut known: impl Iterator<Item = &'a Measurement>,
) -> Option<Beside> {
    let alike = |m: &&Measurement| {
        let what = |figure: &Measurement| {
            (figure.gauge.clone(), figure.test.clone(), figure.name.clone(), figure.unit)
        };
        m.is_published() && what(m) == what(own)
    };
    let theirs = known.find(alike)?;
    let PublishedConfig { machine, source, .. } = theirs.read_config();
    let name = [machine, source].into_iter().flatten().collect::<Vec<_>>().join("; ");
    beside(name, own, theirs)
}

fn saved_beside(
    headline: Headline<'_>,
    own: &Measurement,
    record: &Record,
    others: &[(&Record, Vec<Headline<'_>>)],
) -> Option<Beside> {
    others.iter().find_map(|(other, theirs)| {
        let same = theirs.iter().find(|other_headline| other_headline.title == headline.title)?;
        let figure = same.figure.filter(|figure| figure.unit == own.unit)?;
        let host = other.machine.host.as_deref().unwrap_or("unknown host");
        let when = other.started.get(..16).unwrap_or(&other.started).replace('T', " ");
        let name = if other.machine.host == record.machine.host {
            format!("this node on {when}")
        } else {
            format!("{host} on {when}")
        };
        beside(name, own, figure)
    })
}
