//! Rows in aligned columns, as wide as the terminal allows. Without a terminal nothing is cut.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::output::{Paint, plain};

/// Columns are narrowed to this before the line itself is cut.
const NARROWEST: usize = 8;
const GAP: usize = 2;

/// Rows under a header.
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub fn new<const N: usize>(header: [&str; N]) -> Self {
        Self { header: header.map(str::to_owned).to_vec(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [&str; N]) {
        self.rows.push(cells.map(plain).to_vec());
    }

    /// The lines of the table, the header first.
    pub fn lines(&self, paint: Paint, width: Option<usize>) -> Vec<String> {
        let widths = self.widths(width);
        let mut lines = vec![paint.dim(lay_out(&self.header, &widths, width))];
        lines.extend(self.rows.iter().map(|row| lay_out(row, &widths, width)));
        lines
    }

    /// What each column gets: its widest cell, less what it has to give up for the line to fit. The last column, which
    /// is free text, gives first: a name that was cut cannot be copied.
    fn widths(&self, width: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self.header.iter().map(|cell| cell.width()).collect();
        for row in &self.rows {
            for (wide, cell) in widths.iter_mut().zip(row) {
                *wide = (*wide).max(cell.width());
            }
        }
        let needed = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        let mut excess = width.map_or(0, |width| needed.saturating_sub(width));
        let mut give = |wide: &mut usize| {
            let given = excess.min(wide.saturating_sub(NARROWEST));
            *wide -= given;
            excess -= given;
        };
        widths.last_mut().into_iter().for_each(&mut give);
        widths.iter_mut().for_each(give);
        widths
    }
}

fn lay_out(cells: &[String], widths: &[usize], width: Option<usize>) -> String {
    let mut line = String::new();
    for (cell, wide) in cells.iter().zip(widths) {
        let cell = cut(cell, *wide);
        let padding = wide.saturating_sub(cell.width()) + GAP;
        line.push_str(&cell);
        line.push_str(&" ".repeat(padding));
    }
    let line = line.trim_end();
    width.map_or_else(|| line.to_owned(), |width| cut(line, width))
}

/// The text in at most `width` columns, with `…` where it was cut.
pub fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut room = width.saturating_sub(1);
    let mut kept = String::new();
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if wide > room {
            break;
        }
        room -= wide;
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
    fn columns_are_aligned_and_nothing_is_cut_without_a_terminal() {
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
    fn free_text_gives_way_first() {
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
    fn no_line_is_wider_than_the_terminal() {
        for width in 0..60 {
            for line in lines(&sample(), Some(width)) {
                assert!(line.width() <= width, "{width}: `{line}`");
            }
        }
    }
}
