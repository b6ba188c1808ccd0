//! Memory against the budget, in characters.

use super::report::size;

/// Fewest and most columns of the picture itself.
const WIDTHS: (usize, usize) = (20, 72);
/// Columns before it, and those behind it on the line of the times.
const BESIDE_COLUMNS: usize = 12 + 6;
const HEIGHT: usize = 16;
const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws `samples` (seconds, bytes), the line at `limit` and the phases between calm, attack and after, in so many
/// columns.
pub(super) fn draw(
    samples: &[(f64, u64)],
    limit: u64,
    (began, ended): (f64, f64),
    columns: usize,
    colours: bool,
) -> String {
    let width = columns.saturating_sub(BESIDE_COLUMNS).clamp(WIDTHS.0, WIDTHS.1);
    let paint = |code: &str, text: &str| {
        if colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    };
    let end = samples.last().map_or(1.0, |(at, _)| at.max(0.001));
    let column_of = |at: f64| ((at / end * width as f64) as usize).min(width - 1);
    let mut columns = vec![0_u64; width];
    for (at, bytes) in samples {
        let column = &mut columns[column_of(*at)];
        *column = (*column).max(*bytes);
    }
    // A column without a sample of its own shows what was before it.
    for index in 1..width {
        if columns[index] == 0 {
            columns[index] = columns[index - 1];
        }
    }
    let over: String = columns.iter().map(|bytes| if *bytes > limit { '▲' } else { '╌' }).collect();
    let mut out = format!("{:>12}memory.budget.bytes\n", "");
    out.push_str(&format!("{:>10} ┤{}\n", size(limit), paint("31", &over)));
    for row in (0..HEIGHT).rev() {
        let label =
            if row % 4 == 0 && row > 0 { size(limit * row as u64 / HEIGHT as u64) } else { String::new() };
        let bars: String = columns
            .iter()
            .map(|bytes| {
                let eighths = (*bytes as f64 / limit.max(1) as f64 * (HEIGHT * 8) as f64).ceil() as usize;
                match eighths.saturating_sub(row * 8) {
                    0 => ' ',
                    filled => EIGHTHS[filled.min(8) - 1],
                }
            })
            .collect();
        let edge = if label.is_empty() { '│' } else { '┤' };
        out.push_str(&format!("{label:>10} {edge}{}\n", paint("36", bars.trim_end())));
    }
    let mut axis = vec!['─'; width];
    axis[column_of(began)] = '┴';
    axis[column_of(ended)] = '┴';
    out.push_str(&format!("{:>10} └{}\n", "0", axis.iter().collect::<String>()));
    let mut words = vec![' '; width];
    let mut put = |from: usize, text: &str| {
        for (place, c) in words.iter_mut().skip(from).zip(text.chars()) {
            *place = c;
        }
    };
    put(0, "calm");
    let middle = (column_of(began) + column_of(ended)) / 2;
    put(middle.saturating_sub(3), "attack");
    put((column_of(ended) + 1).min(width - 5), "after");
    out.push_str(&format!("{:>12}{} {end:.0} s\n", "", words.iter().collect::<String>()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_has_its_full_height_at_the_limit_and_marks_what_is_above() {
        let samples: Vec<(f64, u64)> =
            (0..=100).map(|n| (f64::from(n), if n < 50 { 32 } else { 64 })).collect();
        for (columns, width) in [(140, 72), (60, 42), (1, 20)] {
            let text = draw(&samples, 64, (10.0, 90.0), columns, false);
            let rows: Vec<&str> = text.lines().collect();
            assert_eq!(rows.len(), HEIGHT + 4);
            assert!(!rows[1].contains('▲'));
            assert_eq!(rows[2].matches('█').count(), width / 2, "{text}");
            assert_eq!(rows[HEIGHT + 1].matches('█').count(), width, "{text}");
            assert!(rows[HEIGHT + 3].contains("calm") && rows[HEIGHT + 3].contains("attack"), "{text}");
        }
        assert!(draw(&[(1.0, 65)], 64, (0.2, 0.8), 100, false).contains('▲'));
        draw(&[], 0, (0.0, 0.0), 100, true);
    }
}
