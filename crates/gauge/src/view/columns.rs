//! Tables as data: a table is a list of columns, each with a title, a unit and a function that returns the cell for a
//! row. All renderers read the same columns. This module provides the usual columns of figures, such as the median and
//! the share of the limit.

use super::{Column, Table, TableCell};
use nodegauge_measure::record::Measurement;
use nodegauge_measure::stats::Summary;
use nodegauge_measure::{Fraction, ScaledUnit, Unit};
use std::borrow::Borrow;

/// Unit of the values of a column: a unit with the prefix that all values of the column share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnUnit(ScaledUnit);

impl ColumnUnit {
    /// Rates of data in GB/s.
    pub const GB_PER_S: Self = Self(ScaledUnit::GB_PER_S);
    /// Rates of data in MB/s.
    pub const MB_PER_S: Self = Self(ScaledUnit::MB_PER_S);
    /// Rates of operations in GFLOP/s.
    pub const GFLOP_PER_S: Self = Self(ScaledUnit::GFLOP_PER_S);
    /// Times in nanoseconds.
    pub const NANOSECONDS: Self = Self(ScaledUnit::NANOSECONDS);
    /// Times in microseconds.
    pub const MICROSECONDS: Self = Self(ScaledUnit::MICROSECONDS);
    /// Rates of messages in Mmsg/s.
    pub const MMSG_PER_S: Self = Self(ScaledUnit::MMSG_PER_S);

    /// Returns the unit with the prefix that tables usually show, e.g. microseconds for times. A unit without a usual
    /// prefix has none.
    pub fn from_unit(unit: Unit) -> Self {
        match unit {
            Unit::MessagesPerSecond => Self::MMSG_PER_S,
            other => Self(ScaledUnit::for_lists(other)),
        }
    }

    /// Returns the unit without the prefix.
    pub fn unit(self) -> Unit {
        self.0.unit
    }

    /// Returns the symbol with the prefix, e.g. `GB/s`.
    pub fn symbol(self) -> String {
        self.0.to_string()
    }

    /// Formats a value with four digits, without the symbol.
    pub fn number_text(self, value: f64) -> String {
        self.0.number_text(value)
    }

    /// Returns the cell of a value; without a value, a dash.
    pub fn cell(self, value: Option<f64>) -> TableCell {
        let Some(value) = value else { return TableCell::text("-") };
        TableCell::figure(value, self.unit(), self.number_text(value))
    }

    /// Returns the cell of a figure. If the figure has no value, the cell contains its status.
    pub fn value(self, m: &Measurement) -> TableCell {
        TableCell::from_measurement(m, |value| self.number_text(value))
    }
}

/// Row of a table that shows a figure; the usual columns read it.
pub trait FigureRow {
    /// Returns the figure of the row.
    fn figure(&self) -> &Measurement;

    /// Returns the statistics of the figure; `None` for an invalid figure, whose statistics could be mistaken for a
    /// result.
    fn statistics(&self) -> Option<&Summary> {
        let m = self.figure();
        m.summary.as_ref().filter(|_| m.value.is_some())
    }
}

impl FigureRow for Measurement {
    fn figure(&self) -> &Measurement {
        self
    }
}

impl<Row: FigureRow> FigureRow for &Row {
    fn figure(&self) -> &Measurement {
        Row::figure(self)
    }
}

impl<Row: FigureRow, Config> FigureRow for (Row, Config) {
    fn figure(&self) -> &Measurement {
        self.0.figure()
    }
}

/// Function that returns the cell for a row.
type CellFunction<'c, Row> = Box<dyn Fn(&Row) -> TableCell + 'c>;

/// Columns of a table whose rows have one type, left to right. Empty columns are not shown, so a column without any
/// cell needs no condition.
pub struct ColumnList<'c, Row> {
    columns: Vec<(Column, CellFunction<'c, Row>)>,
}

impl<'c, Row> ColumnList<'c, Row> {
    /// Creates an empty list.
    #[expect(clippy::new_without_default, reason = "a list without columns is no table")]
    pub fn new() -> Self {
        Self { columns: Vec::new() }
    }

    fn with(
        mut self,
        title: impl Into<String>,
        right: bool,
        cell: impl Fn(&Row) -> TableCell + 'c,
    ) -> Self {
        self.columns.push((Column { title: title.into(), right }, Box::new(cell)));
        self
    }

    /// Adds a left-aligned column, for texts.
    pub fn left<Cell: Into<TableCell>>(
        self,
        title: impl Into<String>,
        cell: impl Fn(&Row) -> Cell + 'c,
    ) -> Self {
        self.with(title, false, move |row| cell(row).into())
    }

    /// Adds a right-aligned column, for figures.
    pub fn right<Cell: Into<TableCell>>(
        self,
        title: impl Into<String>,
        cell: impl Fn(&Row) -> Cell + 'c,
    ) -> Self {
        self.with(title, true, move |row| cell(row).into())
    }

    /// Adds a right-aligned column with a dash in rows without a cell.
    pub fn right_or_dash<Cell: Into<TableCell>>(
        self,
        title: impl Into<String>,
        cell: impl Fn(&Row) -> Option<Cell> + 'c,
    ) -> Self {
        self.right(title, move |row| cell(row).map_or_else(|| "-".into(), Cell::into))
    }

    /// Adds a right-aligned column that is empty in rows without a cell.
    pub fn right_or_blank<Cell: Into<TableCell>>(
        self,
        title: impl Into<String>,
        cell: impl Fn(&Row) -> Option<Cell> + 'c,
    ) -> Self {
        self.right(title, move |row| cell(row).map_or_else(TableCell::default, Cell::into))
    }

    /// Adds a column of values in a unit, with a dash in rows without a value.
    pub fn values(
        self,
        title: impl Into<String>,
        unit: ColumnUnit,
        value: impl Fn(&Row) -> Option<f64> + 'c,
    ) -> Self {
        self.right(title, move |row| unit.cell(value(row)))
    }

    /// Adds one right-aligned column for each item, as in a matrix.
    pub fn columns_for_each<Item: 'c, Cell: Into<TableCell>>(
        self,
        items: impl IntoIterator<Item = Item>,
        title: impl Fn(&Item) -> String,
        cell: impl Fn(&Row, &Item) -> Cell + Clone + 'c,
    ) -> Self {
        items.into_iter().fold(self, |columns, item| {
            let own_cell = cell.clone();
            let own_title = title(&item);
            columns.right(own_title, move |row| own_cell(row, &item))
        })
    }

    /// Adds the columns of `more` if `condition` is true.
    pub fn add_if(self, condition: bool, more: impl FnOnce(Self) -> Self) -> Self {
        if condition { more(self) } else { self }
    }

    /// Returns the table of these columns without rows.
    pub fn empty_table(&self) -> Table {
        let columns = self.columns.iter().map(|(column, _)| column.clone()).collect();
        Table { columns, ..Table::default() }
    }

    /// Adds rows to a table of these columns.
    pub fn add_rows<Of: Borrow<Row>>(&self, table: &mut Table, rows: impl IntoIterator<Item = Of>) {
        for row in rows {
            table.push_row(self.columns.iter().map(|(_, cell)| cell(row.borrow())));
        }
    }

    /// Returns the table of these rows.
    pub fn table<Of: Borrow<Row>>(&self, rows: impl IntoIterator<Item = Of>) -> Table {
        let mut table = self.empty_table();
        self.add_rows(&mut table, rows);
        table
    }

    /// Returns the table of groups of rows, each group below its heading.
    pub fn grouped_table<Heading: Into<TableCell>, Of: Borrow<Row>>(
        &self,
        groups: impl IntoIterator<Item = (Heading, impl IntoIterator<Item = Of>)>,
    ) -> Table {
        let mut table = self.empty_table();
        for (heading, rows) in groups {
            table.push_heading(heading);
            self.add_rows(&mut table, rows);
        }
        table
    }
}

/// Usual columns of figures.
impl<'c, Row: FigureRow + 'c> ColumnList<'c, Row> {
    /// Adds the column with the name of the figure; the title is the unit of the table.
    pub fn names(self, unit: &str) -> Self {
        self.left(unit, |row| row.figure().name.clone())
    }

    /// Adds the column with the value of the figure; without a value, the status.
    pub fn value_or_status(self, title: impl Into<String>, unit: ColumnUnit) -> Self {
        self.right(title, move |row| unit.value(row.figure()))
    }

    /// Adds the column with the median of the samples.
    pub fn median(self, unit: ColumnUnit) -> Self {
        self.values("median", unit, |row| Some(row.statistics()?.median))
    }

    /// Adds the columns with the 5th and the 95th percentile of the samples.
    pub fn quantiles(self, unit: ColumnUnit) -> Self {
        self.values("5 %", unit, |row| Some(row.statistics()?.p05))
            .values("95 %", unit, |row| Some(row.statistics()?.p95))
    }

    /// Adds the columns of a rate: the best, the median and the quantiles.
    pub fn rates(self, unit: ColumnUnit) -> Self {
        self.value_or_status("best", unit).median(unit).quantiles(unit)
    }

    /// Adds the column with the share of the limit; invalid figures have none.
    pub fn limit_share(self) -> Self {
        self.limit_share_as(|share| share.to_string())
    }

    /// Adds the column with the share of the limit in another format, e.g. with one decimal in all rows.
    pub fn limit_share_as(self, form: fn(Fraction) -> String) -> Self {
        self.right("of limit", move |row| {
            let m = row.figure();
            let limit = m.limit.as_ref().filter(|_| m.value.is_some());
            limit.map_or_else(|| "?".to_owned(), |limit| form(limit.fraction))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::record::QuotedStatistic;
    use nodegauge_measure::stats::BetterDirection;

    fn texts(table: &Table) -> Vec<Vec<&str>> {
        table.rows.iter().map(|row| row.iter().map(|cell| &*cell.text).collect()).collect()
    }

    #[test]
    fn columns_of_figures_show_statistics_only_with_a_value() {
        let m = Measurement::new("memory", "stream", "triad", Unit::BytesPerSecond);
        let m = Measurement {
            summary: Summary::from_samples(&[40e9; 6], BetterDirection::Higher),
            ..m
        };
        let valid = m.clone().with_value(QuotedStatistic::Best, 41e9).with_limit(82e9, "given");
        let mut invalid = m;
        invalid.validity.mark_invalid("wrong result");
        let columns = ColumnList::<Measurement>::new()
            .names("GB/s")
            .rates(ColumnUnit::GB_PER_S)
            .limit_share()
            .right_or_dash("unknown", |_| None::<String>);
        let table = columns.table([&valid, &invalid]);
        let titles: Vec<&str> = table.columns.iter().map(|column| &*column.title).collect();
        assert_eq!(titles, ["GB/s", "best", "median", "5 %", "95 %", "of limit", "unknown"]);
        assert!(table.columns[1..].iter().all(|column| column.right));
        let rows = texts(&table);
        assert_eq!(rows[0], ["triad", "41.00", "40.00", "40.00", "40.00", "50 %", "-"]);
        assert_eq!(rows[1], ["triad", "invalid", "-", "-", "-", "?", "-"]);
    }

    #[test]
    fn groups_of_rows_have_headings() {
        let columns = ColumnList::<u32>::new()
            .left("", |row| row.to_string())
            .columns_for_each(
                [2, 3],
                |item| format!("x {item}"),
                |row, item| (row * item).to_string(),
            )
            .add_if(false, |columns| columns.left("absent", |_| ""));
        let table = columns.grouped_table([("small", vec![1, 2]), ("large", vec![10])]);
        assert_eq!(texts(&table), [["1", "2", "3"], ["2", "4", "6"], ["10", "20", "30"]]);
        let headings: Vec<usize> = table.headings.iter().map(|(from, _)| *from).collect();
        assert_eq!(headings, [0, 2]);
        assert_eq!(table.columns.len(), 3);
    }

    #[test]
    fn values_use_the_prefix_of_their_column() {
        assert_eq!(ColumnUnit::NANOSECONDS.number_text(1.2345e-7), "123.5");
        assert_eq!(ColumnUnit::from_unit(Unit::MessagesPerSecond).number_text(2.5e6), "2.500");
        assert_eq!(ColumnUnit::from_unit(Unit::Factor).number_text(2.5), "2.500");
        assert_eq!(ColumnUnit::GB_PER_S.cell(None).text, "-");
        let cell = ColumnUnit::GB_PER_S.cell(Some(41.2e9));
        assert_eq!(
            (cell.text.as_str(), cell.figure),
            ("41.20", Some((41.2e9, Unit::BytesPerSecond)))
        );
    }
}
