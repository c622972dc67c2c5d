//! Tables with aligned columns. They are truncated to the terminal width; without a terminal nothing is truncated.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::output::{Paint, sanitize_line};

/// The minimum width to which a column shrinks. If the table is still too wide, its lines are truncated.
const MIN_COLUMN_WIDTH: usize = 8;
const GAP: usize = 2;

/// A table with a header.
pub(super) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates an empty table with these columns.
    pub(super) fn new<const N: usize>(header: [&str; N]) -> Self {
        Self { header: header.map(str::to_owned).to_vec(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(super) fn row<const N: usize>(&mut self, cells: [&str; N]) {
        self.rows.push(cells.map(sanitize_line).to_vec());
    }

    /// Returns the lines of the table, including the header.
    pub(super) fn lines(&self, paint: Paint, width: Option<usize>) -> Vec<String> {
        let widths = self.widths(width);
        let mut lines = vec![paint.dim(format_row(&self.header, &widths, width))];
        lines.extend(self.rows.iter().map(|row| format_row(row, &widths, width)));
        lines
    }

    /// Computes the column widths. A column is as wide as its widest cell, and columns shrink until the line fits. The
    /// last column contains free text and shrinks first, because a truncated name in another column could not be
    /// copied.
    fn widths(&self, width: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self.header.iter().map(|cell| cell.width()).collect();
        for row in &self.rows {
            for (column_width, cell) in widths.iter_mut().zip(row) {
                *column_width = (*column_width).max(cell.width());
            }
        }
        let needed = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        let mut excess = width.map_or(0, |width| needed.saturating_sub(width));
        let mut shrink = |column_width: &mut usize| {
            let removed = excess.min(column_width.saturating_sub(MIN_COLUMN_WIDTH));
            *column_width -= removed;
            excess -= removed;
        };
        widths.last_mut().into_iter().for_each(&mut shrink);
        widths.iter_mut().for_each(shrink);
        widths
    }
}

fn format_row(cells: &[String], widths: &[usize], width: Option<usize>) -> String {
    let mut line = String::new();
    for (cell, column_width) in cells.iter().zip(widths) {
        let cell = truncate(cell, *column_width);
        let padding = column_width.saturating_sub(cell.width()) + GAP;
        line.push_str(&cell);
        line.push_str(&" ".repeat(padding));
    }
    let line = line.trim_end();
    width.map_or_else(|| line.to_owned(), |width| truncate(line, width))
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
    fn last_table_column_is_truncated_first() {
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
    fn table_lines_never_exceed_terminal_width() {
        for width in 0..60 {
            for line in lines(&sample(), Some(width)) {
                assert!(line.width() <= width, "{width}: `{line}`");
            }
        }
    }
}
