//! docs/reference/operator-flags.md, made of the command line itself. Decides how the page looks; what a flag
//! means is written where it is declared.

use super::super::{WITHOUT_EFFECT, command};

const PATH: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/reference/operator-flags.md"
);
const HEAD: &str = "\
# Flags of the operator

<!-- Written by `MUSTER_UPDATE_GOLDEN=1 cargo test -p controller --lib operator_flags`; do not edit. -->

`muster-operator` has every flag of Kubeflow's MPI operator, so a Deployment for that operator also starts muster. A flag may have
one dash or two. Its value follows after `=` or as the next word. A flag whose default is `false` is `true` when it stands alone;
its value follows only after `=`. An unknown flag ends the operator with code 2. `--help` prints the flags that have an effect.

";

fn page() -> String {
    let command = command();
    let mut rows = Vec::new();
    for flag in command.get_arguments() {
        let name = flag.get_long().expect("every flag has a long name");
        if WITHOUT_EFFECT.contains(&name) {
            continue;
        }
        let values = flag.get_default_values().iter();
        let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
        let default = match values.concat() {
            text if text.is_empty() => String::new(),
            text => format!("`{text}`"),
        };
        let help = flag.get_help().expect("every flag has a help text");
        rows.push(format!("| `--{name}` | {default} | {help} |\n"));
    }
    rows.sort();
    let mut without_effect = WITHOUT_EFFECT.map(|name| format!("`--{name}`"));
    without_effect.sort();
    format!(
        "{HEAD}| flag | default | |\n|---|---|---|\n{}\n## Without effect\n\nThe operator accepts these flags of Kubeflow's and \
         names them in its log. There is nothing to set: muster's client has no rate limit of its own,\nand its log goes to \
         stderr.\n\n{}.\n",
        rows.concat(),
        without_effect.join(", ")
    )
}

#[test]
fn the_page_of_operator_flags_lists_all_of_them() {
    let page = page();
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
