//! Quantities as Kubernetes reads and prints them.

use proptest::prelude::*;
use quantity::Quantity;

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
        ("12e6", "12e6"),
        ("12E6", "12e6"),
        ("12e-3", "12e-3"),
        ("1e+3", "1e3"),
        ("12e5", "1200e3"),
        ("12e0", "12"),
        ("1E", "1E"),
        ("1024", "1024"),
        ("1Ki", "1Ki"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("0.9765625Ki", "1k"),
        ("0.000001", "1u"),
        ("1e-9", "1e-9"),
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
        ("1e-10", "1e-9"),
        ("0.000000000000000000000000001Ei", "2n"),
        ("1e-999999999", "1e-9"),
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
    fn printed_ones_read_back_the_same(number: i64, suffix in "n|u|m||k|Ki|Mi|e-9|e3") {
        let quantity = quantity(&format!("{number}{suffix}"));
        let printed = quantity.to_string();
        let again = Quantity::parse(&printed).expect("what is printed can be read");
        prop_assert_eq!(again, quantity);
        if !suffix.ends_with('i') {
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

#[test]
fn ones_are_rounded_up() {
    for (written, ones) in [
        ("0", 0),
        ("1", 1),
        ("1m", 1),
        ("1500m", 2),
        ("-1500m", -1),
        ("1Ki", 1024),
    ] {
        assert_eq!(quantity(written).ones(), ones, "{written}");
    }
    assert_eq!(quantity("2m").nanos(), 2_000_000);
}
