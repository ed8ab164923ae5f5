//! Flags of `muster generate`. Those of `openmpi` are the fields of its dialect, name for name. Decides
//! nothing about the values: the dialect does.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use contract::mpi::Mpi;
use dialects::field::{Field, FieldType};
use dialects::openmpi_v1alpha1::fields;
use serde_json::{Map, Value};

const NAME: &str = "NAME";

/// Parameters of the ksonnet component; only those given are written.
#[derive(Debug)]
pub(crate) struct OpenMpi {
    pub(crate) name: String,
    pub(crate) spec: Map<String, Value>,
}

/// The fields that are flags, by name. Name and namespace of the job are given in another way.
fn parameters() -> impl Iterator<Item = (&'static str, &'static Field)> {
    let named = fields::FIELDS
        .iter()
        .filter_map(|field| Some((field.path.strip_prefix("spec.")?, field)));
    named.filter(|(name, _)| !["name", "namespace"].contains(name))
}

fn flag(name: &'static str, field: &'static Field) -> Arg {
    let flag = Arg::new(name)
        .long(name)
        .value_name("VALUE")
        .help(field.meaning)
        .required(field.shape.is_required);
    match field.shape.field_type {
        FieldType::List(_) => flag.value_parser(list),
        FieldType::Any => flag
            .value_parser(text)
            .num_args(0..=1)
            .default_missing_value("true"),
        _ if field.shape.has_default_number() => flag.value_parser(number),
        _ => flag.value_parser(text),
    }
}

fn text(text: &str) -> Result<Value, String> {
    Ok(text.into())
}

fn number(text: &str) -> Result<Value, String> {
    let number: u32 = text.parse().map_err(|error| format!("{error}"))?;
    Ok(number.into())
}

fn list(text: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if value.is_array() {
        Ok(value)
    } else {
        Err("it must be a list, such as [{\"name\": \"scratch\", \"emptyDir\": {}}]".to_owned())
    }
}

impl Args for OpenMpi {
    fn augment_args(command: Command) -> Command {
        let name = Arg::new(NAME).required(true).help("Name of the job");
        let flags = parameters().map(|(name, field)| flag(name, field));
        command.arg(name).args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for OpenMpi {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let name = matches.get_one::<String>(NAME).cloned();
        let spec = parameters().filter_map(|(name, _)| {
            let value = matches.get_one::<Value>(name)?;
            Some((name.to_owned(), value.clone()))
        });
        Ok(Self {
            name: name.unwrap_or_default(),
            spec: spec.collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The usual MPIJob.
#[derive(Debug, Args)]
pub(crate) struct MpiJob {
    /// Name of the job
    pub(crate) name: String,
    /// Image of launcher and workers
    #[arg(long)]
    pub(crate) image: String,
    /// Workers
    #[arg(long, default_value_t = 2)]
    pub(crate) workers: u32,
    /// Ranks per worker
    #[arg(long, default_value_t = 1)]
    pub(crate) slots: u32,
    /// The MPI that the program was built with
    #[arg(long, default_value = Mpi::OpenMpi.as_str(), value_parser = Mpi::NAMES)]
    pub(crate) mpi: String,
    /// What the launcher runs
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<String>,
}
