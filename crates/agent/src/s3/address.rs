//! `s3://bucket/prefix`, as people write it. Decides which objects are below an address.

use std::fmt;

use anyhow::{Context, Result, ensure};

/// A place in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) bucket: String,
    path: String,
}

impl Address {
    pub(super) fn of(text: &str) -> Result<Self> {
        let wrong = || format!("{text:?} is not an address such as s3://bucket/prefix");
        let rest = text.strip_prefix("s3://").with_context(wrong)?;
        let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
        let named = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        ensure!(!bucket.is_empty() && bucket.bytes().all(named), wrong());
        Ok(Self {
            bucket: bucket.to_owned(),
            path: path.trim_end_matches('/').to_owned(),
        })
    }

    /// The keys of all objects below the address begin with this.
    pub(super) fn prefix(&self) -> String {
        match self.path.as_str() {
            "" => String::new(),
            path => format!("{path}/"),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_an_address_is_below_its_last_part() -> Result<()> {
        assert_eq!(Address::of("s3://b")?.prefix(), "");
        assert_eq!(Address::of("s3://b/")?.prefix(), "");
        assert_eq!(Address::of("s3://b/a/c")?.prefix(), "a/c/");
        assert_eq!(Address::of("s3://b/a/c/")?.prefix(), "a/c/");
        for wrong in ["b/a", "s3://", "s3:///a", "https://b/a", "s3://a b/c"] {
            assert!(Address::of(wrong).is_err(), "{wrong}");
        }
        Ok(())
    }
}
