//! Tables with aligned columns. They fit into the terminal; without a terminal nothing is shortened.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::output::{Paint, sanitize_line};

/// The minimum width to which a column shrinks. If the table is still too wide, its last columns are hidden.
const MIN_COLUMN_WIDTH: usize = 8;
const GAP: usize = 2;

/// A table with a header.
pub(super) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// The number of columns at the start that contain names or ids. They are never shortened, because a shortened name
    /// cannot be copied.
    ids: usize,
}

impl Table {
    /// Creates an empty table with these columns, the most important ones first. The first column contains names or
    /// ids.
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

    /// Returns the lines of the table, including the header. If columns are hidden, the last line names them.
    pub(super) fn lines(&self, paint: Paint, width: Option<usize>) -> Vec<String> {
        let widths = self.widths(width);
        let mut lines = vec![paint.dim(format_row(&self.header, &widths))];
        lines.extend(self.rows.iter().map(|row| format_row(row, &widths)));
        if let Some(hidden @ [_, ..]) = self.header.get(widths.len()..) {
            lines.push(paint.dim(format!("(hidden: {}; widen the terminal, or use --json)", hidden.join(", "))));
        }
        lines
    }

    /// Computes the widths of the visible columns. A column is as wide as its widest cell. If the line is too wide, the
    /// widest columns shrink, and then the last columns are hidden. The columns with ids keep their width, so a line
    /// can be wider than a narrow terminal.
    fn widths(&self, width: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self.header.iter().map(|cell| cell.width()).collect();
        for row in &self.rows {
            for (column_width, cell) in widths.iter_mut().zip(row) {
                *column_width = (*column_width).max(cell.width());
            }
        }
        let Some(width) = width else { return widths };
        loop {
            let mut shrunk = widths.clone();
            let excess = total(&shrunk).saturating_sub(width);
            let left = shrink(shrunk.get_mut(self.ids..).unwrap_or_default(), excess);
            if left == 0 || widths.len() <= self.ids {
                return shrunk;
            }
            widths.pop();
        }
    }
}

/// The width of a line.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Reduces the widths by `excess` in total, the widest columns first. Returns the part of `excess` that remains.
fn shrink(widths: &mut [usize], mut excess: usize) -> usize {
    while excess > 0 {
        let Some(widest) = widths.iter().copied().max().filter(|widest| *widest > MIN_COLUMN_WIDTH) else { break };
        let next = widths.iter().copied().filter(|width| *width < widest).max().unwrap_or_default();
        let target = next.max(MIN_COLUMN_WIDTH);
        for column in widths.iter_mut().filter(|column| **column == widest) {
            let removed = excess.min(widest - target);
            *column -= removed;
            excess -= removed;
        }
    }
    excess
}

fn format_row(cells: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (cell, column_width) in cells.iter().zip(widths) {
        let cell = truncate(cell, *column_width);
        let padding = column_width.saturating_sub(cell.width()) + GAP;
        line.push_str(&cell);
        line.push_str(&" ".repeat(padding));
    }
    line.trim_end().to_owned()
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
            lines(&sample(), Some(40)),
            [
                "NAME        TYPE      DESCRIPTION",
                "orders/get  REST      Read one order wi…",
                "日本        FUNCTION  Two lines",
            ]
        );
    }

    #[test]
    fn narrow_table_hides_the_last_columns_and_never_shortens_ids() {
        let mut table = Table::new(["RUN", "CALL", "TOOL", "INPUT", "AGENT", "REQUESTED"]).with_ids(2);
        let (run, call) = ("run_01KA3P6V0W5JYB9Q2F7T8XCD4E", "call_go54mr4j5qg2rtn2jlum6sasaj");
        table.row([run, call, "orders/cancel", r#"{"orderId":"4711"}"#, "desk", "2026-11-18 09:30"]);
        assert_eq!(
            lines(&table, Some(80)),
            [
                "RUN                             CALL                             TOOL",
                "run_01KA3P6V0W5JYB9Q2F7T8XCD4E  call_go54mr4j5qg2rtn2jlum6sasaj  orders/cancel",
                "(hidden: INPUT, AGENT, REQUESTED; widen the terminal, or use --json)",
            ]
        );
        for width in 0..160 {
            let lines = lines(&table, Some(width));
            assert!(lines[1].contains(run) && lines[1].contains(call), "{width}: {lines:?}");
            assert!(lines[1].width() <= width.max(run.width() + GAP + call.width()), "{width}: {lines:?}");
        }
    }
}
