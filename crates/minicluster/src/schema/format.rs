//! The usual written forms of numbers, amounts and times. Decides how a value that says the same
//! in another way is rewritten.

use jiff::Timestamp;
use serde_json::Number;

const QUANTITY: &str = "quantities must match the regular expression \
                        '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// A number without a fraction.
pub(crate) fn whole(number: &Number) -> Option<i64> {
    number.as_i64().or_else(|| {
        let float = number.as_f64()?;
        let fits = float.fract() == 0.0 && float.abs() < 9.0e15;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "whole, and well within an i64"
        )]
        fits.then_some(float as i64)
    })
}

/// An amount in billionths, as exact as the API server keeps it.
pub(crate) fn amount(text: &str) -> Option<i128> {
    parse(text).map(|(nanos, _)| nanos)
}

/// An amount in its shortest form.
pub(crate) fn quantity(text: &str) -> Result<String, String> {
    let (nanos, style) = parse(text.trim()).ok_or_else(|| QUANTITY.to_owned())?;
    Ok(write(nanos, style))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Binary,
    Decimal,
    Exponent,
}

const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const NANO: i128 = 1_000_000_000;

fn parse(text: &str) -> Option<(i128, Style)> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let end = rest
        .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
        .unwrap_or(rest.len());
    let (digits, suffix) = rest.split_at(end);
    let (before, after) = digits.split_once('.').unwrap_or((digits, ""));
    if (before.is_empty() && after.is_empty()) || after.contains('.') {
        return None;
    }
    let mantissa: i128 = format!("0{before}{after}").parse().ok()?;
    let places = u32::try_from(after.len()).ok()?;
    let (numerator, power, style) = scale(suffix)?;
    // mantissa × numerator × 10^(9 + power − places), rounded up.
    let exponent = 9 + power - i32::try_from(places).ok()?;
    let scaled = mantissa.checked_mul(numerator)?;
    let nanos = if exponent >= 0 {
        scaled.checked_mul(10_i128.checked_pow(exponent.unsigned_abs())?)?
    } else {
        let divisor = 10_i128.checked_pow(exponent.unsigned_abs())?;
        scaled / divisor + i128::from(scaled % divisor != 0)
    };
    Some((sign * nanos, style))
}

fn scale(suffix: &str) -> Option<(i128, i32, Style)> {
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((1, *power, Style::Decimal));
    }
    if let Some(power) = BINARY.iter().position(|name| *name == suffix) {
        let power = u32::try_from(power).ok()?;
        return Some((1024_i128.pow(power), 0, Style::Binary));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let power: i32 = exponent.parse().ok()?;
    (-18..=18)
        .contains(&power)
        .then_some((1, power, Style::Exponent))
}

fn write(nanos: i128, style: Style) -> String {
    if nanos == 0 {
        return "0".to_owned();
    }
    if style == Style::Binary && nanos % NANO == 0 && (nanos / NANO).abs() >= 1024 {
        let mut amount = nanos / NANO;
        let mut power = 0;
        while amount % 1024 == 0 && power + 1 < BINARY.len() {
            amount /= 1024;
            power += 1;
        }
        return format!("{amount}{}", BINARY[power]);
    }
    if style == Style::Binary && nanos % NANO == 0 {
        return (nanos / NANO).to_string();
    }
    let mut amount = nanos;
    let mut power = -9;
    while amount % 1000 == 0 && power < 18 {
        amount /= 1000;
        power += 3;
    }
    if style == Style::Exponent {
        return match power {
            0 => amount.to_string(),
            _ => format!("{amount}e{power}"),
        };
    }
    let suffix = DECIMAL
        .iter()
        .find(|(_, of)| *of == power)
        .map_or("", |(name, _)| name);
    format!("{amount}{suffix}")
}

/// A time, to the second.
pub(crate) fn time(text: &str) -> Result<String, String> {
    parse_time(text).map(seconds)
}

/// A time, to the microsecond.
pub(crate) fn micro_time(text: &str) -> Result<String, String> {
    parse_time(text).map(micros)
}

fn parse_time(text: &str) -> Result<Timestamp, String> {
    text.parse::<Timestamp>().map_err(|_| {
        format!("parsing time \"{text}\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"{text}\" as \"2006\"")
    })
}

/// As the API server writes times of its own.
pub(crate) fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// As leases and events have it.
pub(crate) fn micros(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_take_their_shortest_form() {
        let cases = [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("100Mi", "100Mi"),
            ("0", "0"),
            ("12e6", "12e6"),
            ("1500", "1500"),
            ("2000", "2k"),
            ("0.1n", "1n"),
            ("512", "512"),
            ("1Ki", "1Ki"),
        ];
        for (from, to) in cases {
            assert_eq!(quantity(from).as_deref(), Ok(to), "{from}");
        }
        for wrong in ["", "a", "1.2.3", "1Kb", "--1"] {
            assert!(quantity(wrong).is_err(), "{wrong}");
        }
    }
}
