//! Tables with aligned columns. If a row is wider than the terminal, it continues on indented lines. Without a terminal
//! nothing is shortened.

use std::ops::Range;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::output::{Paint, sanitize_line};

/// The minimum width to which a column shrinks next to others. If a row is still too wide, its last columns continue on
/// another line.
const MIN_COLUMN_WIDTH: usize = 32;
const GAP: usize = 2;
/// The indentation of the second and each further line of a row.
const INDENT: usize = 2;

/// A table with a header.
pub(super) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// The number of columns at the start that contain names or ids. They are never shortened, because a shortened name
    /// cannot be copied.
    ids: usize,
}

/// The columns that share a line, with their widths.
struct Line {
    columns: Range<usize>,
    widths: Vec<usize>,
    indent: usize,
}

impl Table {
    /// Creates an empty table with these columns, the most important ones first. The first column contains names or ids.
    pub(super) fn new<const N: usize>(header: [&str; N]) -> Self {
        Self { header: header.map(str::to_owned).to_vec(), rows: Vec::new(), ids: 1 }
    }

    /// Sets how many columns at the start contain names or ids.
    pub(super) fn with_ids(self, ids: usize) -> Self {
        Self { ids, ..self }
    }

    /// Adds a row.
    pub(super) fn row<const N: usize>(&mut self, cells: [&str; N]) {
        self.rows.push(cells.map(sanitize_line).to_vec());
    }

    /// Returns the lines of the table, including the header.
    pub(super) fn lines(&self, paint: Paint, width: Option<usize>) -> Vec<String> {
        let layout = self.layout(width);
        let mut lines: Vec<String> = layout.iter().map(|line| paint.dim(line.format(&self.header))).collect();
        for row in &self.rows {
            let formatted = layout.iter().map(|line| line.format(row));
            lines.extend(formatted.enumerate().filter(|(at, line)| *at == 0 || !line.is_empty()).map(|(_, line)| line));
        }
        lines
    }

    /// Distributes the columns over as few lines as possible. A column is as wide as its widest cell. If a line is too
    /// wide, its widest columns shrink, and then its last columns move to the next line.
    fn layout(&self, width: Option<usize>) -> Vec<Line> {
        let natural = self.natural_widths();
        let mut lines: Vec<Line> = Vec::new();
        let mut start = 0;
        while start < natural.len() {
            let indent = if start == 0 { 0 } else { INDENT };
            let line = (start + 1..=natural.len())
                .rev()
                .map(|end| self.fit(&natural, start..end, indent, width))
                .find_map(|(line, fits)| (fits || line.columns.len() == 1).then_some(line));
            let Some(line) = line else { break };
            start = line.columns.end;
            lines.push(line);
        }
        lines
    }

    fn natural_widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.header.iter().map(|cell| cell.width()).collect();
        for row in &self.rows {
            for (column_width, cell) in widths.iter_mut().zip(row) {
                *column_width = (*column_width).max(cell.width());
            }
        }
        widths
    }

    /// Shrinks the columns of a line to the width of the terminal. Returns whether the line then fits.
    fn fit(&self, natural: &[usize], columns: Range<usize>, indent: usize, width: Option<usize>) -> (Line, bool) {
        let mut widths = natural.get(columns.clone()).unwrap_or_default().to_vec();
        let excess = width.map_or(0, |width| (indent + total(&widths)).saturating_sub(width));
        let ids = self.ids.saturating_sub(columns.start).min(widths.len());
        // A column that has a line of its own shrinks to the width of the terminal.
        let min = if columns.len() == 1 { 1 } else { MIN_COLUMN_WIDTH };
        let left = shrink(widths.get_mut(ids..).unwrap_or_default(), excess, min);
        (Line { columns, widths, indent }, left == 0)
    }
}

impl Line {
    fn format(&self, cells: &[String]) -> String {
        let cells = cells.get(self.columns.clone()).unwrap_or_default();
        let mut line = " ".repeat(self.indent);
        for (cell, column_width) in cells.iter().zip(&self.widths) {
            let cell = truncate(cell, *column_width);
            let padding = column_width.saturating_sub(cell.width()) + GAP;
            line.push_str(&cell);
            line.push_str(&" ".repeat(padding));
        }
        line.trim_end().to_owned()
    }
}

/// The width of a line without its indentation.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Reduces the widths by `excess` in total, the widest columns first, but none below `min`. Returns the part of `excess`
/// that remains.
fn shrink(widths: &mut [usize], mut excess: usize, min: usize) -> usize {
    while excess > 0 {
        let Some(widest) = widths.iter().copied().max().filter(|widest| *widest > min) else { break };
        let next = widths.iter().copied().filter(|width| *width < widest).max().unwrap_or_default();
        let target = next.max(min);
        for column in widths.iter_mut().filter(|column| **column == widest) {
            let removed = excess.min(widest - target);
            *column -= removed;
            excess -= removed;
        }
    }
    excess
}

/// Truncates text to `width` columns and marks the cut with `…`.
pub(super) fn truncate(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut remaining = width.saturating_sub(1);
    let mut kept = String::new();
    for c in text.chars() {
        let column_width = c.width().unwrap_or(0);
        if column_width > remaining {
            break;
        }
        remaining -= column_width;
        kept.push(c);
    }
    kept.truncate(kept.trim_end().len());
    if width > 0 {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(table: &Table, width: Option<usize>) -> Vec<String> {
        table.lines(Paint::none(), width)
    }

    fn sample() -> Table {
        let mut table = Table::new(["NAME", "TYPE", "DESCRIPTION"]);
        table.row(["orders/get", "REST", "Read one order with everything in it"]);
        table.row(["日本", "FUNCTION", "Two\nlines"]);
        table
    }

    #[test]
    fn table_columns_are_aligned_and_not_truncated_without_a_terminal() {
        assert_eq!(
            lines(&sample(), None),
            [
                "NAME        TYPE      DESCRIPTION",
                "orders/get  REST      Read one order with everything in it",
                "日本        FUNCTION  Two lines",
            ]
        );
    }

    #[test]
    fn widest_table_column_is_shortened_first() {
        assert_eq!(
            lines(&sample(), Some(54)),
            [
                "NAME        TYPE      DESCRIPTION",
                "orders/get  REST      Read one order with everything…",
                "日本        FUNCTION  Two lines",
            ]
        );
    }

    #[test]
    fn row_that_is_too_wide_continues_on_an_indented_line_and_ids_are_never_shortened() {
        let mut table = Table::new(["RUN", "CALL", "TOOL", "INPUT", "AGENT", "REQUESTED"]).with_ids(2);
        let (run, call) = ("run_01KA3P6V0W5JYB9Q2F7T8XCD4E", "call_go54mr4j5qg2rtn2jlum6sasaj");
        table.row([run, call, "orders/cancel", r#"{"orderId":"4711"}"#, "desk", "2026-11-18 09:30"]);
        assert_eq!(
            lines(&table, Some(80)),
            [
                "RUN                             CALL                             TOOL",
                "  INPUT               AGENT  REQUESTED",
                "run_01KA3P6V0W5JYB9Q2F7T8XCD4E  call_go54mr4j5qg2rtn2jlum6sasaj  orders/cancel",
                "  {\"orderId\":\"4711\"}  desk   2026-11-18 09:30",
            ]
        );
        for width in 0..160 {
            let lines = lines(&table, Some(width));
            let text = lines.join("\n");
            assert!(text.contains(run) && text.contains(call), "{width}: {text}");
            assert!(lines.iter().all(|line| line.width() <= width.max(INDENT + call.width())), "{width}: {text}");
        }
    }

    #[test]
    fn empty_continuation_line_is_omitted() {
        let mut table = Table::new(["NAME", "DESCRIPTION"]);
        table.row(["orders/get-one-order-by-its-id", "Reads one order"]);
        table.row(["orders/find-many", ""]);
        assert_eq!(
            lines(&table, Some(32)),
            ["NAME", "  DESCRIPTION", "orders/get-one-order-by-its-id", "  Reads one order", "orders/find-many",]
        );
    }
}
