//! docs/reference/cli.md, made of the grammar itself. Decides how the page looks; what a command or a flag means is
//! written where it is declared.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};

use super::super::Cli;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");
const HEAD: &str = "\
# Commands of muster

<!-- Written by `MUSTER_UPDATE_GOLDEN=1 cargo test -p cli --lib the_page_of_commands`; do not edit. -->

As the kubectl plugin `kubectl-mpi`, the same program has the same commands: `kubectl mpi get`. `muster COMMAND --help` prints what is
here. `muster completion SHELL` prints a completion script; `muster man DIRECTORY` writes these pages as manual pages, which releases
contain. [Exit codes](exit-codes.md) have a page of their own.
";

/// Arguments that every command has, and that clap adds.
fn is_everywhere(argument: &Arg) -> bool {
    argument.is_global_set() || ["help", "version"].contains(&argument.get_id().as_str())
}

/// What is typed for it.
fn spelling(argument: &Arg) -> String {
    let values = argument.get_value_names().unwrap_or_default();
    let takes_value = argument.get_action().takes_values();
    let value = if takes_value {
        values.join(" ")
    } else {
        String::new()
    };
    let Some(long) = argument.get_long() else {
        return format!("`{value}`");
    };
    let mut names: Vec<_> = argument
        .get_short()
        .map(|short| format!("-{short}"))
        .into_iter()
        .collect();
    names.push(format!("--{long}"));
    let space = if value.is_empty() { "" } else { " " };
    format!("`{}{space}{value}`", names.join(", "))
}

/// Its meaning, the words it takes, and its default, in one cell of a table.
fn meaning(argument: &Arg) -> String {
    let help = argument
        .get_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let mut text = help.replace('\n', " ").replace('|', "\\|");
    let is_switch = !argument.get_action().takes_values();
    let words: Vec<_> = argument.get_possible_values();
    if !words.is_empty() && !is_switch {
        let words: Vec<_> = words
            .iter()
            .map(|word| format!("`{}`", word.get_name()))
            .collect();
        write!(text, "; one of {}", words.join(", ")).expect("a string takes every word");
    }
    let defaults = argument.get_default_values().iter();
    let default = defaults
        .map(|value| value.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ");
    if !default.is_empty() && !is_switch {
        write!(text, "; `{default}` if not set").expect("a string takes every word");
    }
    text
}

fn table<'a>(arguments: impl Iterator<Item = &'a Arg>) -> String {
    let rows = arguments.filter(|argument| !argument.is_hide_set());
    let rows = rows.map(|argument| format!("| {} | {} |\n", spelling(argument), meaning(argument)));
    let rows: String = rows.collect();
    if rows.is_empty() {
        return rows;
    }
    format!("\n| | |\n|---|---|\n{rows}")
}

/// A command and those below it.
fn section(command: &Command, parents: &str, page: &mut String) {
    let name = format!("{parents} {}", command.get_name());
    let below: Vec<_> = command.get_subcommands().filter(is_shown).collect();
    let about = command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    write!(page, "\n## `{name}`\n\n{about}.").expect("a string takes every line");
    let aliases: Vec<_> = command
        .get_all_aliases()
        .map(|alias| format!("`{alias}`"))
        .collect();
    if !aliases.is_empty() {
        write!(page, " The same as {}.", aliases.join(", ")).expect("a string takes every line");
    }
    page.push('\n');
    *page += &table(
        command
            .get_arguments()
            .filter(|argument| !is_everywhere(argument)),
    );
    for command in below {
        section(command, &name, page);
    }
}

fn is_shown(command: &&Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

fn page() -> String {
    let mut grammar = Cli::command();
    grammar.build();
    let mut page = HEAD.to_owned();
    for command in grammar.get_subcommands().filter(is_shown) {
        section(command, "muster", &mut page);
    }
    let global = grammar
        .get_arguments()
        .filter(|argument| argument.is_global_set());
    let global = table(global.filter(|argument| argument.get_id() != "help"));
    page + "\n## Options of all commands\n" + &global
}

#[test]
fn the_page_of_commands_lists_all_of_them() {
    let page = page();
    for row in [
        "\n## `muster generate openmpi`\n",
        "| `-F, --follow` |",
        "| `COMMAND` |",
    ] {
        assert!(page.contains(row), "{row} is not in\n{page}");
    }
    if std::env::var_os("MUSTER_UPDATE_GOLDEN").is_some() {
        std::fs::write(PATH, page).expect("the page can be written");
        return;
    }
    let written = std::fs::read_to_string(PATH).unwrap_or_default();
    assert_eq!(
        written, page,
        "the first lines of the page say how to write it"
    );
}
