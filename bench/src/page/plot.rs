//! A drawing of lines over two logarithmic axes, as SVG. Decides where things are on the paper; must not
//! know what they mean.

use std::fmt::Write as _;

/// One line: its name, and its points with both numbers above zero.
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// Can be told apart by those who do not see all colours, and in print.
const STYLES: [(&str, &str); 4] = [
    ("#777777", "2 3"),
    ("#0072b2", ""),
    ("#d55e00", "8 3"),
    ("#e69f00", "3 3"),
];

/// An axis from one power of ten to another.
struct Axis {
    least: i32,
    most: i32,
    from: f64,
    to: f64,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            least = least.min(value.log10());
            most = most.max(value.log10());
        }
        let (least, most) = (least.floor() as i32, most.ceil() as i32);
        Self {
            least,
            most: most.max(least + 1),
            from,
            to,
        }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value.log10() - f64::from(self.least)) / f64::from(self.most - self.least);
        self.from + share * (self.to - self.from)
    }

    fn powers(&self) -> impl Iterator<Item = f64> {
        (self.least..=self.most).map(|power| 10_f64.powi(power))
    }
}

/// Draws the lines; the order of their styles is that of [`STYLES`].
pub(super) fn draw(title: &str, across: &str, lines: &[Line]) -> String {
    let points = || lines.iter().flat_map(|line| line.points.iter());
    let x = Axis::of(points().map(|point| point.0), LEFT, WIDTH - RIGHT);
    let y = Axis::of(points().map(|point| point.1), HEIGHT - BOTTOM, TOP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{title}</text>\n\
         <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{across}</text>\n",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 12.0
    );
    let mut add = |text: String| {
        svg.push_str(&text);
        svg.push('\n');
    };
    for value in x.powers() {
        let at = x.at(value);
        add(grid(at, at, y.from, y.to));
        let below = y.from + 18.0;
        add(format!(
            "<text x=\"{at:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{value}</text>"
        ));
    }
    for value in y.powers() {
        let at = y.at(value);
        add(grid(x.from, x.to, at, at));
        let (left, middle) = (x.from - 8.0, at + 4.0);
        add(format!(
            "<text x=\"{left:.1}\" y=\"{middle:.1}\" text-anchor=\"end\">{value}</text>"
        ));
    }
    for (line, (color, dashes)) in lines.iter().zip(STYLES) {
        if let Some(text) = drawn(line, color, dashes, &x, &y) {
            add(text);
        }
    }
    svg + "</svg>\n"
}

fn grid(x1: f64, x2: f64, y1: f64, y2: f64) -> String {
    format!(
        "<line x1=\"{x1:.1}\" x2=\"{x2:.1}\" y1=\"{y1:.1}\" y2=\"{y2:.1}\" stroke=\"#dddddd\"/>"
    )
}

fn drawn(line: &Line, color: &str, dashes: &str, x: &Axis, y: &Axis) -> Option<String> {
    let last = line.points.last()?;
    let mut path = String::new();
    for (index, point) in line.points.iter().enumerate() {
        let to = if index == 0 { 'M' } else { 'L' };
        write!(path, "{to}{:.1} {:.1} ", x.at(point.0), y.at(point.1))
            .expect("a string takes all that is written to it");
    }
    Some(format!(
        "<path d=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\" \
         stroke-dasharray=\"{dashes}\"/>\n<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{color}\">{}</text>",
        path.trim_end(),
        x.at(last.0) + 8.0,
        y.at(last.1) + 4.0,
        line.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_number_is_further_right_and_higher_up() {
        let lines = [Line {
            name: "a",
            points: vec![(1.0, 0.1), (1000.0, 10.0)],
        }];
        let svg = draw("T", "W", &lines);
        assert!(svg.contains("M70.0 310.0 L550.0 40.0"), "{svg}");
        assert!(svg.contains(">1000<") && svg.contains(">0.1<"), "{svg}");
    }
}
