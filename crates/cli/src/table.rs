//! Tables and ages as kubectl prints them.

use jiff::Timestamp;
use planner::text::printable;

/// Columns that are empty in every row are left out.
pub(crate) fn shown(heads: &[&str], rows: &[Vec<String>]) -> String {
    let used: Vec<usize> = (0..heads.len())
        .filter(|column| rows.iter().any(|row| !row[*column].is_empty()))
        .collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(heads[column].len())
    };
    let widths: Vec<usize> = used.iter().map(|column| width(*column)).collect();
    let line = |cell: &dyn Fn(usize) -> String| {
        let mut text = String::new();
        for (column, width) in used.iter().zip(&widths) {
            text += &format!("{:width$}  ", cell(*column));
        }
        text.trim_end().to_owned() + "\n"
    };
    let mut text = line(&|column| heads[column].to_owned());
    for row in rows {
        text += &line(&|column| match row[column].as_str() {
            "" => "-".to_owned(),
            cell => one_line(cell),
        });
    }
    text
}

/// Columns that stay as wide as they were when the first rows were known. No column is left out, because a later row
/// may have something in it.
#[derive(Debug)]
pub(crate) struct Layout {
    widths: Vec<usize>,
}

impl Layout {
    /// For these rows, and for others like them.
    pub(crate) fn of(heads: &[&str], rows: &[Vec<String>]) -> Self {
        let width = |(column, head): (usize, &&str)| {
            let cells = rows
                .iter()
                .map(|row| one_line(&row[column]).chars().count());
            cells.max().unwrap_or(0).max(head.len())
        };
        Self {
            widths: heads.iter().enumerate().map(width).collect(),
        }
    }

    /// A row.
    pub(crate) fn line<'c>(&self, cells: impl Iterator<Item = &'c str>) -> String {
        let mut text = String::new();
        for (cell, width) in cells.zip(&self.widths) {
            let cell = match cell {
                "" => "-".to_owned(),
                cell => one_line(cell),
            };
            text += &format!("{cell:width$}  ");
        }
        text.trim_end().to_owned() + "\n"
    }
}

/// Text of others on one line of ours: a line end in it could pass for the next row.
pub(crate) fn one_line(text: &str) -> String {
    printable(&text.replace(['\n', '\r', '\t'], " ")).into_owned()
}

/// The time since a moment, as kubectl prints it.
pub(crate) fn since(then: &str, now: Timestamp) -> String {
    match then.parse::<Timestamp>() {
        Ok(then) => seconds(now.as_second() - then.as_second()),
        Err(_) => String::new(),
    }
}

/// A number of seconds as kubectl prints it: two units while that is short, one later.
pub(crate) fn seconds(total: i64) -> String {
    let total = total.max(0);
    let (minutes, hours, days) = (total / 60, total / 3600, total / 86_400);
    let two = |big: i64, unit: &str, small: i64, other: &str| match small {
        0 => format!("{big}{unit}"),
        small => format!("{big}{unit}{small}{other}"),
    };
    match total {
        0..120 => format!("{total}s"),
        120..600 => two(minutes, "m", total % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        _ => format!("{days}d"),
    }
}

/// How long a job ran: with tenths below a minute, where they are known.
pub(crate) fn run_time(secs: f64) -> String {
    match secs {
        0.0..60.0 if secs.fract() != 0.0 => format!("{secs:.1}s"),
        _ => seconds(jiff::SignedDuration::from_secs_f64(secs.round()).as_secs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_runs_have_tenths_where_they_are_known() {
        for (secs, text) in [
            (0.4, "0.4s"),
            (59.96, "60.0s"),
            (3.0, "3s"),
            (61.2, "61s"),
            (-1.0, "0s"),
        ] {
            assert_eq!(run_time(secs), text);
        }
    }

    #[test]
    fn ages_are_those_of_kubectl() {
        for (secs, text) in [
            (0, "0s"),
            (119, "119s"),
            (130, "2m10s"),
            (180, "3m"),
            (700, "11m"),
            (3 * 3600 + 240, "3h4m"),
            (9 * 3600, "9h"),
            (50 * 3600, "2d2h"),
            (20 * 86_400, "20d"),
        ] {
            assert_eq!(seconds(secs), text);
        }
    }

    #[test]
    fn s07_a_cell_is_one_line_and_tells_a_terminal_nothing() {
        let message = "lost\nNAME  STATE\npi  Succeeded\u{1b}[2J\u{202e}";
        let rows = [vec!["pi".to_owned(), message.to_owned()]];
        assert_eq!(
            shown(&["NAME", "CONTEXT"], &rows),
            "NAME  CONTEXT\npi    lost NAME  STATE pi  Succeeded\u{fffd}[2J\u{fffd}\n"
        );
    }

    #[test]
    fn empty_columns_are_left_out() {
        let rows = [
            vec!["pi".to_owned(), String::new(), "x y".to_owned()],
            vec!["longer".to_owned(), String::new(), String::new()],
        ];
        assert_eq!(
            shown(&["NAME", "QUEUE", "CONTEXT"], &rows),
            "NAME    CONTEXT\npi      x y\nlonger  -\n"
        );
    }
}
