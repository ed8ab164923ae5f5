//! Where a value stands within an object. Written out only when something is wrong there, because every
//! value of every write is walked over.

use std::fmt;

/// The way from an object to a value of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path<'a> {
    /// The object itself.
    Root,
    /// A field of a struct.
    Field(&'a Path<'a>, &'a str),
    /// An entry of a map with free keys.
    Key(&'a Path<'a>, &'a str),
    /// An item of a list.
    Item(&'a Path<'a>, usize),
}

impl Path<'_> {
    /// The names of the structs' fields alone.
    pub(crate) fn fields(&self) -> Vec<&str> {
        match self {
            Self::Root => Vec::new(),
            Self::Field(above, name) => {
                let mut names = above.fields();
                names.push(name);
                names
            }
            Self::Key(above, _) | Self::Item(above, _) => above.fields(),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) | Self::Key(Self::Root, name) => {
                formatter.write_str(name)
            }
            Self::Field(above, name) | Self::Key(above, name) => {
                write!(formatter, "{above}.{name}")
            }
            Self::Item(above, index) => write!(formatter, "{above}[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_as_the_api_server_writes_it() {
        let spec = Path::Field(&Path::Root, "spec");
        let containers = Path::Field(&spec, "containers");
        let first = Path::Item(&containers, 0);
        let limits = Path::Field(&first, "limits");
        let cpu = Path::Key(&limits, "cpu");
        assert_eq!(cpu.to_string(), "spec.containers[0].limits.cpu");
        assert_eq!(cpu.fields(), ["spec", "containers", "limits"]);
        assert_eq!(Path::Root.to_string(), "");
    }
}
