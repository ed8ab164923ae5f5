//! The date and the time of day, UTC, as signatures spell them. No time zones, no leap seconds.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY: u64 = 86_400;
/// From the first of March of year 0 to the epoch.
const DAYS_TO_EPOCH: u64 = 719_468;
const DAYS_OF_400_YEARS: u64 = 146_097;

/// `20261116T051200Z`.
pub(super) fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    written(since.map_or(0, |since| since.as_secs()))
}

/// Years that begin in March have their odd day at the end.
fn written(secs: u64) -> String {
    let (days, secs) = (secs / DAY + DAYS_TO_EPOCH, secs % DAY);
    let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = year + era * 400 + next;
    let (hour, minute, second) = (secs / 3600, secs / 60 % 60, secs % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (secs, date) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (1_709_251_200, "20240301T000000Z"),
            (1_795_132_799, "20261119T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(written(secs), date);
        }
    }
}
