//! HTML renderer: a page of the view model becomes one file that requires no network. It does not depend on gauges.
//!
//! Text of records becomes text of elements or attributes, escaped by `markup`, or JSON in a data block that
//! is not executed. A content security policy in the page allows only the page's own scripts, named by their
//! digests.

use crate::markup::{self, Markup, element, fixed, script, text};
use nodegauge_gauge::view::{
    Bar, Block, Card, Drawing, Grid, HeatMaps, Note, Page, Picture, Scale, Section, Table,
    TableCell, Tone,
};
use nodegauge_measure::Fraction;
use std::collections::BTreeMap;

/// Minimum number of rows and of columns of a heat map that can also be drawn as a surface in 3D.
const SURFACE: usize = 2;

/// Maximum number of columns of a table that scrolls as a whole. In wider tables, the first column stays visible.
const NARROW: usize = 6;

const STYLE: &str = include_str!("../assets/report.css");

/// Script of the page: file name and text.
type Script = (&'static str, &'static str);

/// Apache ECharts 6.1.0 and ECharts-GL 2.1.0, unmodified.
const ECHARTS: Script = ("echarts.min.js", include_str!("../assets/echarts.min.js"));
const ECHARTS_GL: Script = ("echarts-gl.min.js", include_str!("../assets/echarts-gl.min.js"));
const DRAW: Script = ("report.js", include_str!("../assets/report.js"));

/// Renders a page as one file. Names of pictures and tables that are saved from the page begin with `name`.
pub fn page(page: &Page, name: &str) -> String {
    let shown = || page.sections.iter().filter(|section| !section.blocks.is_empty());
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let anchors: Vec<String> = shown().map(|section| anchor(section.id, &mut seen)).collect();
    let link = |(section, anchor): (&Section, &String)| {
        let link = element("a", &[("href", &format!("#{anchor}"))], [text(section.id)]);
        element("li", &[], [link])
    };
    let links: Vec<Markup> = shown().zip(&anchors).map(link).collect();
    let sections: Vec<Markup> = shown().zip(&anchors).map(|(one, id)| section(one, id)).collect();
    let pictures: Vec<Picture> =
        shown().flat_map(|section| &section.blocks).flat_map(pictures).collect();
    let mut scripts: Vec<Script> = Vec::new();
    scripts.extend((!pictures.is_empty()).then_some(ECHARTS));
    scripts.extend(pictures.iter().any(is_surface).then_some(ECHARTS_GL));
    scripts.push(DRAW);
    let digests: Vec<String> =
        scripts.iter().map(|(script, _)| format!("'sha256-{}'", markup::digest(script))).collect();
    let policy = format!(
        "default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'",
        digests.join(" ")
    );
    let viewport = "width=device-width, initial-scale=1";
    let head = [
        element("meta", &[("charset", "utf-8")], []),
        element("meta", &[("http-equiv", "Content-Security-Policy"), ("content", &policy)], []),
        element("meta", &[("name", "viewport"), ("content", viewport)], []),
        element("meta", &[("name", "color-scheme"), ("content", "light dark")], []),
        element("title", &[], [text(&page.heading)]),
        element("style", &[], [fixed(STYLE)]),
    ];
    let body = [
        element("a", &[("class", "skip"), ("href", "#main")], [text("skip to the figures")]),
        element("header", &[], [element("h1", &[], [text(&page.heading)])]),
        element("nav", &[("aria-label", "sections")], [element("ul", &[], links)]),
        element(
            "noscript",
            &[],
            [element("p", &[], [text("Pictures need JavaScript; tables do not.")])],
        ),
        element("main", &[("id", "main")], sections),
    ];
    let scripts = scripts.into_iter().map(|(_, code)| element("script", &[], [fixed(code)]));
    let body = element("body", &[("data-name", name)], body.into_iter().chain(scripts));
    let html = element("html", &[("lang", "en")], [element("head", &[], head), body]);
    format!("<!doctype html>\n{html}\n")
}

/// Returns an anchor name that no other section has.
fn anchor<'a>(id: &'a str, seen: &mut BTreeMap<&'a str, usize>) -> String {
    let number = seen.entry(id).or_default();
    *number += 1;
    let name = id.replace(' ', "-");
    if *number == 1 { name } else { format!("{name}-{number}") }
}

fn section(section: &Section, anchor: &str) -> Markup {
    let mut inside = vec![element("h2", &[], [text(section.id)])];
    // Consecutive pictures are shown side by side if the screen is wide enough.
    for blocks in section.blocks.chunk_by(|one, next| is_drawn(one) && is_drawn(next)) {
        let drawn: Vec<Markup> = blocks.iter().flat_map(pictures).map(|one| figure(&one)).collect();
        if drawn.is_empty() {
            inside.extend(blocks.iter().filter_map(block));
        } else {
            inside.push(element("div", &[("class", "figures")], drawn));
        }
    }
    element("section", &[("id", anchor), ("aria-label", anchor)], inside)
}

fn is_drawn(block: &Block) -> bool {
    matches!(block, Block::Chart(_) | Block::HeatMaps(_) | Block::Picture(_))
}

/// Returns the pictures of a block.
fn pictures(block: &Block) -> Vec<Picture> {
    match block {
        Block::Picture(picture) => vec![picture.clone()],
        Block::Chart(chart) => {
            let names: Vec<&str> = chart.series.iter().map(|one| one.name.as_str()).collect();
            let title = match chart.x {
                Scale::Bytes => names.join(", ") + " over size",
                Scale::Intensity => "roofline: attainable rate over FLOP/B".to_owned(),
                _ => names.join(", "),
            };
            vec![Picture::chart(title, chart.clone())]
        }
        Block::HeatMaps(maps) => grids(maps),
        _ => Vec::new(),
    }
}

/// Returns a picture for each of the heat maps.
fn grids(HeatMaps { axes, rows, columns, maps, unit }: &HeatMaps) -> Vec<Picture> {
    let grid = |map: &nodegauge_gauge::view::HeatMap| Picture {
        title: map.title.clone(),
        drawing: Drawing::HeatMap(Grid {
            axes: *axes,
            rows: rows.clone(),
            columns: columns.clone(),
            values: map.values.clone(),
            unit: *unit,
            surface: rows.len() >= SURFACE && columns.len() >= SURFACE,
        }),
    };
    maps.iter().map(grid).collect()
}

fn is_surface(picture: &Picture) -> bool {
    matches!(&picture.drawing, Drawing::HeatMap(grid) if grid.surface)
}

/// Returns the element of a picture, with the title and the data that the script of the page draws.
fn figure(picture: &Picture) -> Markup {
    let caption = element("figcaption", &[], [text(&picture.title)]);
    element("figure", &[], [caption, script(picture)])
}

/// Returns the element of a block that is not a picture.
fn block(block: &Block) -> Option<Markup> {
    Some(match block {
        Block::Heading(words) => element("h3", &[], [text(words)]),
        Block::Text(words) => element("p", &[("class", "text")], [text(words)]),
        Block::Note(note) => self::note(note),
        Block::Table(table) => self::table(table),
        Block::Card(card) => self::card(card),
        Block::Gap | Block::Chart(_) | Block::HeatMaps(_) | Block::Picture(_) => return None,
    })
}

fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "",
        Tone::Strong => "strong",
        Tone::Better => "better",
        Tone::Worse => "worse",
        Tone::Faint => "faint",
        Tone::Warning => "warning",
        Tone::Bad => "bad",
    }
}

fn note(note: &Note) -> Markup {
    let nested = if note.nested { " nested" } else { "" };
    let class = format!("note {}{nested}", class(note.tone));
    let faint = if note.faint { "faint" } else { "" };
    let words = element("span", &[("class", faint)], [text(&note.text)]);
    element("div", &[("class", &class)], [element("b", &[], [text(&note.label)]), words])
}

/// Returns a table in a separate scroll region, for screens that are narrower than the table.
fn table(table: &Table) -> Markup {
    let bars = || table.rows.iter().flatten().filter_map(|cell| cell.bar);
    let longest = bars().fold(Fraction(1.0), Fraction::max);
    let mut rows = Vec::new();
    for (i, row) in table.rows.iter().enumerate() {
        let heads = table.headings.iter().filter(|(at, cell)| *at == i && !cell.text.is_empty());
        let span = row.len().to_string();
        rows.extend(heads.map(|(_, cell)| {
            let attributes = [("colspan", span.as_str()), ("scope", "rowgroup")];
            element("tr", &[], [element("th", &attributes, [text(&cell.text)])])
        }));
        let mut cells = Vec::new();
        for (at, one) in row.iter().enumerate() {
            let right = table.columns.get(at).is_some_and(|column| column.right);
            cells.push(cell(one, right, longest));
        }
        rows.push(element("tr", &[], cells));
    }
    let heads = table.columns.iter().map(|column| {
        let right = if column.right { "right" } else { "" };
        if column.title.is_empty() {
            // A heading cell must not be empty, so an empty heading is an ordinary cell.
            return element("td", &[], []);
        }
        element("th", &[("scope", "col"), ("class", right)], [text(&column.title)])
    });
    let head = element("thead", &[], [element("tr", &[], heads)]);
    let named = table.columns.iter().any(|column| !column.title.is_empty());
    let parts = named.then_some(head).into_iter().chain([element("tbody", &[], rows)]);
    let class = match (bars().next().is_some(), table.columns.len() > NARROW) {
        (true, _) => "bars",
        (_, true) => "wide",
        _ => "",
    };
    let whole = element("table", &[("class", class)], parts);
    let titles: Vec<&str> = table.columns.iter().map(|column| column.title.as_str()).collect();
    let label = format!("table of {}", titles.join(" "));
    let region =
        [("class", "scroll"), ("tabindex", "0"), ("role", "region"), ("aria-label", &label)];
    element("div", &[("class", "block")], [element("div", &region, [whole])])
}

/// Returns a cell; the width of a bar is relative to `longest`.
fn cell(cell: &TableCell, right: bool, longest: Fraction) -> Markup {
    let class = format!("{}{}", class(cell.tone), if right { " right" } else { "" });
    let value = cell.figure.map(|(value, _)| value.to_string());
    let mut attributes = vec![("class", class.trim())];
    attributes.extend(value.as_deref().map(|value| ("data-value", value)));
    let inside = match cell.bar {
        Some(share) => {
            let style = format!("width:{:.1}%", share / longest * 100.0);
            element("span", &[("class", "bar"), ("style", &style)], [])
        }
        None => text(&cell.text),
    };
    element("td", &attributes, [inside])
}

/// Returns the table of headline bars, in percent of the limits; a mark in the bar shows the figure of the other node.
fn card(card: &Card) -> Markup {
    let titles = ["part of the node", "share of the limit", "value", "other node"];
    let heads = titles.map(|title| element("th", &[("scope", "col")], [text(title)]));
    let head = element("thead", &[], [element("tr", &[], heads)]);
    let rows = card.bars.iter().map(bar);
    element("table", &[("class", "card")], [head, element("tbody", &[], rows)])
}

fn bar(bar: &Bar) -> Markup {
    let small = |words: &str| element("small", &[], [text(words)]);
    let place = |share: Fraction| share.0.clamp(0.0, 1.0) * 100.0;
    let mut inside = Vec::new();
    let width = bar.share.map(|share| format!("width:{:.1}%", place(share)));
    inside.extend(width.map(|style| element("span", &[("class", "bar"), ("style", &style)], [])));
    let other = bar.beside.as_ref().and_then(|beside| beside.share);
    let left = other.map(|share| format!("left:{:.1}%", place(share)));
    inside.extend(left.map(|style| element("i", &[("style", &style)], [])));
    let known = if bar.share.is_some() { "" } else { "none" };
    let meter = element("div", &[("class", known), ("aria-hidden", "true")], inside);
    let share = match (bar.share, &bar.value) {
        (Some(share), _) => format!("{} of {}", share.in_whole_percent(), bar.limit),
        (None, Some(_)) => format!("unknown: {}", bar.limit),
        (None, None) => "unknown: not measured".to_owned(),
    };
    let beside = bar.beside.as_ref().map_or_else(
        || bar.value.iter().map(|_| text("no figure of another node known")).collect(),
        |beside| {
            let mut words = beside.name.clone();
            words.extend(
                beside.share.map(|of_limit| {
                    format!(", {} of that node's limit", of_limit.in_whole_percent())
                }),
            );
            words.extend(
                beside.ratio.map(|ratio| format!("; this node has {ratio:.2} times that value")),
            );
            vec![text(&beside.value), small(&words)]
        },
    );
    let cells = [
        element("th", &[("scope", "row")], [text(&bar.title), small(&bar.what)]),
        element("td", &[("class", "meter")], [meter, small(&share)]),
        element("td", &[], [text(bar.value.as_deref().unwrap_or_default())]),
        element("td", &[], beside),
    ];
    element("tr", &[], cells)
}
