//! The usual written forms of numbers, amounts and times. Decides how a value that says the same
//! in another way is rewritten.

use jiff::Timestamp;
use quantity::Quantity;
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
    Quantity::parse(text).map(Quantity::nanos)
}

/// An amount in its shortest form.
pub(crate) fn quantity(text: &str) -> Result<String, String> {
    let parsed = Quantity::parse(text.trim());
    let parsed = parsed.ok_or_else(|| QUANTITY.to_owned())?;
    Ok(parsed.to_string())
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
