//! `kubectl appdeploy options`: the flags that every command has, as `kubectl options`.

use clap::{Args as _, Command};

use crate::cluster::connection::KubeArgs;
use crate::error::Result;
use crate::terminal::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  # Print the flags that can be given with any command
  kubectl appdeploy options";

/// The text above the flags.
const TEMPLATE: &str = "The following options can be passed to any command:\n\n{options}";

/// The flags of `options`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {}

/// Runs the command.
pub fn run(ui: &mut Ui) -> Result<()> {
    ui.print(&flags().render_help().to_string())
}

/// Returns a command whose help is the list of the flags.
fn flags() -> Command {
    KubeArgs::augment_args(Command::new("options"))
        .mut_args(|arg| arg.hide_short_help(false).help_heading(None::<&str>))
        .disable_help_flag(true)
        .help_template(TEMPLATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_listed_within_eighty_columns() {
        let text = flags().term_width(80).render_help().to_string();
        let command = KubeArgs::augment_args(Command::new("options"));
        for arg in command.get_arguments() {
            let flag = format!("--{}", arg.get_long().unwrap_or_default());
            assert!(text.contains(&flag), "{flag}: {text}");
        }
        let long = text.lines().find(|line| line.chars().count() > 80);
        assert_eq!(long, None);
    }
}
