//! Kubernetes quantities (`1500m`, `2Gi`, `3e6`): read, added, compared and printed exactly.
//!
//! Counts in billionths, the finest step that Kubernetes keeps; what is finer rounds up, what is
//! larger than Kubernetes can hold becomes the largest it can. Nothing here knows of resources.

use std::fmt;
use std::iter::repeat_n;

const NANOS_PER_ONE: i128 = 1_000_000_000;
const NANOS_MAX: i128 = i64::MAX as i128 * NANOS_PER_ONE;
/// A number with more digits than this before its point is larger than [`NANOS_MAX`].
const WHOLE_DIGITS_MAX: i64 = 19;
/// A number with more zeros than this behind its point is less than a nano, whatever its suffix.
const LEADING_ZEROS_MAX: i64 = 40;

const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// The power of ten of the first of them; each of the others has three more.
const DECIMAL_POWER_MIN: i64 = -9;
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// An amount of a resource, and how it is spelled.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    style: Style,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Decimal,
    Exponent,
    Binary,
}

/// How it is spelled does not count: `1` is `1000m`.
impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Quantity {
    /// Reads a text; `None` for what Kubernetes would not read either.
    pub fn parse(text: &str) -> Option<Self> {
        let negative = text.starts_with('-');
        let text = text.strip_prefix(['-', '+']).unwrap_or(text);
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return None;
        }
        let (style, unit, shift) = scale(suffix)?;
        let nanos = nanos(whole, fraction, unit, shift);
        Some(Self {
            nanos: if negative { -nanos } else { nanos },
            style,
        })
    }

    /// In billionths.
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// In ones, rounded up.
    pub fn ones(self) -> i128 {
        self.nanos.div_euclid(NANOS_PER_ONE) + i128::from(self.nanos % NANOS_PER_ONE != 0)
    }

    /// Both together. A style stays only where both have it; a zero has none.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let style = match (self.nanos, other.nanos) {
            (0, _) => other.style,
            (_, 0) => self.style,
            (_, _) if self.style == other.style => self.style,
            (_, _) => Style::Decimal,
        };
        Self {
            nanos: self.nanos.saturating_add(other.nanos),
            style,
        }
    }

    /// So many of it.
    #[must_use]
    pub fn times(self, count: u32) -> Self {
        Self {
            nanos: self.nanos.saturating_mul(count.into()),
            ..self
        }
    }

    /// The larger of both.
    #[must_use]
    pub fn or_larger(self, other: Self) -> Self {
        match other.nanos > self.nanos {
            true => other,
            false => self,
        }
    }
}

/// What a suffix means: the nanos in a one, and how far the point moves to the right.
fn scale(suffix: &str) -> Option<(Style, i128, i64)> {
    let decimal = DECIMAL_POWER_MIN..;
    let mut decimal = DECIMAL.iter().zip(decimal.step_by(3));
    if let Some((_, shift)) = decimal.find(|(name, _)| **name == suffix) {
        return Some((Style::Decimal, NANOS_PER_ONE, shift));
    }
    if let Some(index) = BINARY.iter().position(|name| *name == suffix) {
        return Some((Style::Binary, NANOS_PER_ONE << (10 * (index + 1)), 0));
    }
    let shift = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((Style::Exponent, NANOS_PER_ONE, shift))
}

/// The number in nanos, rounded up. Digits may be of any length, hence digit by digit.
fn nanos(whole: &str, fraction: &str, unit: i128, shift: i64) -> i128 {
    let digits = format!("{whole}{fraction}");
    let length = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX);
    let leading = length(&digits) - length(digits.trim_start_matches('0'));
    let digits = digits.trim_matches('0');
    // Digits before the point; if negative, zeros behind it.
    let point = (length(whole) - leading).saturating_add(shift);
    match point {
        _ if digits.is_empty() => return 0,
        point if point > WHOLE_DIGITS_MAX => return NANOS_MAX,
        point if point < -LEADING_ZEROS_MAX => return 1,
        _ => {}
    }
    let values = || digits.bytes().map(|byte| i128::from(byte - b'0'));
    let before = usize::try_from(point).unwrap_or(0);
    let ones = values().chain(repeat_n(0, before)).take(before);
    let ones = ones.fold(0, |ones: i128, digit| ones * 10 + digit);
    let zeros = repeat_n(0, usize::try_from(-point).unwrap_or(0));
    let (mut part, mut rest) = (0, false);
    for digit in values()
        .skip(before)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .chain(zeros)
    {
        let tenfold = part + digit * unit;
        part = tenfold / 10;
        rest |= tenfold % 10 != 0;
    }
    let nanos = ones
        .saturating_mul(unit)
        .saturating_add(part + i128::from(rest));
    nanos.min(NANOS_MAX)
}

/// As Kubernetes prints it: the largest suffix that leaves a whole number.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ones, part) = (self.nanos / NANOS_PER_ONE, self.nanos % NANOS_PER_ONE);
        if self.nanos == 0 {
            return f.write_str("0");
        }
        // Kubernetes leaves powers of two where they would round, and below the first of them.
        if self.style == Style::Binary && part == 0 && ones.abs() >= 1024 {
            let (amount, power) = divided(ones, 1024, BINARY.len());
            let suffix = power.checked_sub(1).map_or("", |index| BINARY[index]);
            return write!(f, "{amount}{suffix}");
        }
        let (amount, index) = divided(self.nanos, 1000, DECIMAL.len() - 1);
        match (self.style, DECIMAL[index]) {
            (Style::Exponent, suffix) if !suffix.is_empty() => {
                write!(
                    f,
                    "{amount}e{}",
                    3 * i64::try_from(index).unwrap_or(0) + DECIMAL_POWER_MIN
                )
            }
            (_, suffix) => write!(f, "{amount}{suffix}"),
        }
    }
}

/// Divides by `base` as often as that leaves a whole number, at most `max` times; and how often.
fn divided(mut amount: i128, base: i128, max: usize) -> (i128, usize) {
    let mut times = 0;
    while times < max && amount % base == 0 {
        (amount, times) = (amount / base, times + 1);
    }
    (amount, times)
}
