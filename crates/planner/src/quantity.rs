//! Kubernetes quantities (`1500m`, `2Gi`, `3e6`): read, added, compared and printed exactly.
//!
//! Counts in billionths, the finest step that Kubernetes keeps; what is finer rounds up, what is
//! larger than Kubernetes can hold becomes the largest it can. Nothing here knows of resources.

use std::fmt;
use std::iter::repeat_n;

use serde_json::Value;

const NANOS_PER_ONE: i128 = 1_000_000_000;
const NANOS_MAX: i128 = i64::MAX as i128 * NANOS_PER_ONE;
/// A number with more digits than this before its point is larger than [`NANOS_MAX`].
const WHOLE_DIGITS_MAX: i64 = 19;
/// A number with more zeros than this behind its point is less than a nano, whatever its suffix.
const LEADING_ZEROS_MAX: i64 = 40;

const DECIMAL: [(&str, i64); 10] = [
    ("E", 18),
    ("P", 15),
    ("T", 12),
    ("G", 9),
    ("M", 6),
    ("k", 3),
    ("", 0),
    ("m", -3),
    ("u", -6),
    ("n", -9),
];
const BINARY: [(&str, u32); 6] = [
    ("Ei", 60),
    ("Pi", 50),
    ("Ti", 40),
    ("Gi", 30),
    ("Mi", 20),
    ("Ki", 10),
];

/// An amount of a resource, and whether it is spelled in powers of two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    nanos: i128,
    binary: bool,
}

/// How it is spelled does not count: `1` is `1000m`.
impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Quantity {
    /// Reads a string or a number; `None` for what Kubernetes would not read either.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let negative = text.starts_with('-');
        let text = text.strip_prefix(['-', '+']).unwrap_or(text);
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return None;
        }
        let scale = Scale::of(suffix)?;
        let nanos = scale.nanos(whole, fraction);
        Some(Self {
            nanos: if negative { -nanos } else { nanos },
            binary: scale.binary,
        })
    }

    /// Both together. Powers of two stay only where both are spelled so; a zero has no say.
    pub(crate) fn plus(self, other: Self) -> Self {
        let binary = match (self.nanos, other.nanos) {
            (0, _) => other.binary,
            (_, 0) => self.binary,
            (_, _) => self.binary && other.binary,
        };
        Self {
            nanos: self.nanos.saturating_add(other.nanos),
            binary,
        }
    }

    /// So many of it.
    pub(crate) fn times(self, count: u32) -> Self {
        Self {
            nanos: self.nanos.saturating_mul(count.into()),
            ..self
        }
    }

    /// The larger of both.
    pub(crate) fn or_larger(self, other: Self) -> Self {
        if other.nanos > self.nanos {
            other
        } else {
            self
        }
    }
}

/// What a suffix does to the number before it.
struct Scale {
    /// Nanos in a one.
    unit: i128,
    /// How far the point moves to the right.
    shift: i64,
    binary: bool,
}

impl Scale {
    fn of(suffix: &str) -> Option<Self> {
        let decimal = |shift| Self {
            unit: NANOS_PER_ONE,
            shift,
            binary: false,
        };
        if let Some((_, shift)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
            return Some(decimal(*shift));
        }
        if let Some((_, bits)) = BINARY.iter().find(|(name, _)| *name == suffix) {
            return Some(Self {
                unit: NANOS_PER_ONE << bits,
                shift: 0,
                binary: true,
            });
        }
        suffix.strip_prefix(['e', 'E'])?.parse().ok().map(decimal)
    }

    /// The number in nanos, rounded up. Digits may be of any length, hence digit by digit.
    fn nanos(&self, whole: &str, fraction: &str) -> i128 {
        let digits = whole
            .bytes()
            .chain(fraction.bytes())
            .map(|byte| byte - b'0');
        let digits: Vec<u8> = digits.skip_while(|digit| *digit == 0).collect();
        if digits.is_empty() {
            return 0;
        }
        // Digits before the point; if negative, zeros behind it.
        let length = |digits: usize| i64::try_from(digits).unwrap_or(i64::MAX);
        let point = (length(digits.len()) - length(fraction.len())).saturating_add(self.shift);
        if point > WHOLE_DIGITS_MAX {
            return NANOS_MAX;
        }
        if point < -LEADING_ZEROS_MAX {
            return 1;
        }
        let before = usize::try_from(point).unwrap_or(0);
        let zeros = usize::try_from(-point).unwrap_or(0);

        let known = digits
            .iter()
            .copied()
            .chain(std::iter::repeat(0))
            .take(before);
        let ones = known.fold(0, |ones: i128, digit| ones * 10 + i128::from(digit));
        let behind = digits
            .get(before..)
            .unwrap_or_default()
            .iter()
            .rev()
            .copied();
        let (mut part, mut rest) = (0, false);
        for digit in behind.chain(repeat_n(0, zeros)) {
            let tenfold = part + i128::from(digit) * self.unit;
            part = tenfold / 10;
            rest |= tenfold % 10 != 0;
        }
        let nanos = ones
            .saturating_mul(self.unit)
            .saturating_add(part + i128::from(rest));
        nanos.min(NANOS_MAX)
    }
}

/// As Kubernetes prints it: the largest suffix that leaves a whole number.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nanos, binary } = *self;
        if nanos == 0 {
            return f.write_str("0");
        }
        let ones = nanos / NANOS_PER_ONE;
        // Kubernetes leaves powers of two where they would round, and below the first of them.
        if binary && nanos % NANOS_PER_ONE == 0 && ones.abs() >= 1024 {
            let fits = BINARY.into_iter().find(|(_, bits)| ones % (1 << bits) == 0);
            return match fits {
                Some((suffix, bits)) => write!(f, "{}{suffix}", ones / (1 << bits)),
                None => write!(f, "{ones}"),
            };
        }
        for (suffix, power) in DECIMAL {
            let power = u32::try_from(power + 9).expect("no suffix is smaller than a nano");
            let unit = 10_i128.pow(power);
            if nanos % unit == 0 {
                return write!(f, "{}{suffix}", nanos / unit);
            }
        }
        unreachable!("every amount is a whole number of nanos")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::Quantity;

    fn quantity(text: &str) -> Quantity {
        Quantity::parse(text).unwrap_or_else(|| panic!("{text:?} is a quantity"))
    }

    fn sum(parts: &[&str]) -> String {
        let zero = quantity("0");
        parts
            .iter()
            .fold(zero, |sum, part| sum.plus(quantity(part)))
            .to_string()
    }

    #[test]
    fn prints_as_kubernetes_does() {
        for (written, printed) in [
            ("0", "0"),
            ("0Gi", "0"),
            ("-0", "0"),
            ("1", "1"),
            ("+1", "1"),
            ("-1.5", "-1500m"),
            (".5", "500m"),
            ("5.", "5"),
            ("007", "7"),
            ("0.1", "100m"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("2500u", "2500u"),
            ("1000000n", "1m"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("1000000", "1M"),
            ("12e6", "12M"),
            ("12E6", "12M"),
            ("12e-3", "12m"),
            ("1e+3", "1k"),
            ("1E", "1E"),
            ("1024", "1024"),
            ("1Ki", "1Ki"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("0.9765625Ki", "1k"),
            ("0.000001", "1u"),
            ("1e-9", "1n"),
            ("1025Ki", "1025Ki"),
            ("1.0009765625Ki", "1025"),
            ("0.1Gi", "107374182400m"),
            ("4Ei", "4Ei"),
            ("9223372036854775807", "9223372036854775807"),
        ] {
            assert_eq!(quantity(written).to_string(), printed, "{written}");
        }
    }

    #[test]
    fn finer_than_a_nano_rounds_up() {
        for (written, printed) in [
            ("0.1n", "1n"),
            ("1.0000000001", "1000000001n"),
            ("-0.1n", "-1n"),
            ("1e-10", "1n"),
            ("0.000000000000000000000000001Ei", "2n"),
            ("1e-999999999", "1n"),
            (
                "0.00000000000000000000000000000000000000000000000001Ei",
                "1n",
            ),
            (
                "0.0000000000000000000000000000000000000000000000000e30",
                "0",
            ),
        ] {
            assert_eq!(quantity(written).to_string(), printed, "{written}");
        }
        let ninths = format!("0.{}", "9".repeat(5000));
        assert_eq!(quantity(&ninths).to_string(), "1");
        let tail = format!("1.{}1Ei", "0".repeat(5000));
        assert_eq!(quantity(&tail).to_string(), "1152921504606846976000000001n");
    }

    #[test]
    fn larger_than_kubernetes_can_hold_is_the_largest() {
        let largest = i64::MAX.to_string();
        let digits = "9".repeat(100_000);
        for written in [
            "10E",
            "1e19",
            "1e999999999",
            "1e9223372036854775807",
            "8Ei",
            "99Ei",
            &digits,
        ] {
            assert_eq!(quantity(written), quantity(&largest), "{written}");
        }
        let most = quantity("8Ei").times(u32::MAX);
        let more = (0..100).fold(most, |sum, _| sum.plus(most).times(u32::MAX));
        assert_eq!(
            Quantity::parse(&more.to_string()).map(|q| q.to_string()),
            Some(largest)
        );
    }

    #[test]
    fn zeros_before_and_behind_change_nothing() {
        let long = format!("{}12{}e-5000", "0".repeat(5000), "0".repeat(5000));
        assert_eq!(quantity(&long).to_string(), "12");
        let small = format!("0.{}12e5002", "0".repeat(5000));
        assert_eq!(quantity(&small).to_string(), "12");
    }

    #[test]
    fn what_is_no_quantity_is_none() {
        for text in [
            "",
            " ",
            "-",
            "+",
            ".",
            "..",
            "1.2.3",
            "1 ",
            " 1",
            "1 Gi",
            "Gi",
            "m",
            "1K",
            "1ki",
            "1KI",
            "1gi",
            "1i",
            "1mm",
            "1e",
            "1e+",
            "1e1.5",
            "1e1e1",
            "1e--1",
            "1eٳ",
            "٣",
            "--1",
            "+-1",
            "0x10",
            "1_000",
            "1,5",
            "NaN",
            "inf",
            "1e9223372036854775808",
            "1é",
            "1\0",
        ] {
            assert!(Quantity::parse(text).is_none(), "{text:?}");
        }
        for value in [json!(null), json!(true), json!([1]), json!({"a": 1})] {
            assert!(Quantity::of(&value).is_none(), "{value}");
        }
    }

    #[test]
    fn numbers_are_read_as_strings_are() {
        for (number, text) in [
            (json!(2), "2"),
            (json!(-3), "-3"),
            (json!(0.5), "500m"),
            (json!(1e21), "9223372036854775807"),
            (json!(u64::MAX), "9223372036854775807"),
        ] {
            assert_eq!(
                Quantity::of(&number).map(|q| q.to_string()).as_deref(),
                Some(text)
            );
        }
    }

    #[test]
    fn sums_keep_powers_of_two_if_all_parts_have_them() {
        for (parts, printed) in [
            (&["100m", "900m"][..], "1"),
            (&["100m", "1"], "1100m"),
            (&["512Mi", "512Mi"], "1Gi"),
            (&["0", "1Gi"], "1Gi"),
            (&["1Gi", "0"], "1Gi"),
            (&["1Gi", "1024"], "1073742848"),
            (&["1024", "1Gi"], "1073742848"),
            (&["1Gi", "-1Gi"], "0"),
            (&["100Mi", "100Mi", "1"], "209715201"),
            (&["1n", "1E"], "1000000000000000000000000001n"),
        ] {
            assert_eq!(sum(parts), printed, "{parts:?}");
        }
    }

    #[test]
    fn times_and_larger() {
        assert_eq!(quantity("1500m").times(4).to_string(), "6");
        assert_eq!(quantity("1Gi").times(0).to_string(), "0");
        assert_eq!(
            quantity("1").or_larger(quantity("1001m")).to_string(),
            "1001m"
        );
        assert_eq!(quantity("1Gi").or_larger(quantity("1G")).to_string(), "1Gi");
        assert_eq!(quantity("1000m"), quantity("1"));
        assert_ne!(quantity("1Gi"), quantity("1G"));
    }

    proptest! {
        #[test]
        fn printed_ones_read_back_the_same(number: i64, power in 0..10_u32, binary: bool) {
            let quantity = Quantity { nanos: i128::from(number) * 10_i128.pow(power), binary };
            let printed = quantity.to_string();
            let again = Quantity::parse(&printed).expect("what is printed can be read");
            prop_assert_eq!(again, quantity);
            if !binary {
                prop_assert_eq!(again.to_string(), printed);
            }
        }

        #[test]
        fn no_text_is_too_strange(text in any::<String>()) {
            if let Some(quantity) = Quantity::parse(&text) {
                prop_assert!(Quantity::parse(&quantity.to_string()) == Some(quantity));
            }
        }

        #[test]
        fn no_number_is_too_strange(text in "[+-]?[0-9.]{0,60}([numkMGTPEKie]{0,2}|[eE][+-]?[0-9]{1,20})") {
            if let Some(quantity) = Quantity::parse(&text) {
                prop_assert!(Quantity::parse(&quantity.to_string()) == Some(quantity));
            }
        }
    }
}
