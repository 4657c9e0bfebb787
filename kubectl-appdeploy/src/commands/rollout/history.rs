//! `kubectl appdeploy history`: prints the revisions of an app and what each changed.

mod difference;

use crd::Kind;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cluster::connection::KubeArgs;
use crate::error::Result;
use crate::output::age;
use crate::output::formats::{self, Format};
use crate::output::table::{Cell, Table};
use crate::resource::revision::{Revision, fetch, find};
use crate::terminal::ui::{Style, Ui};

const EXAMPLES: &str = "\
Examples:
  # List the revisions and what changed
  {command} history {name}

  # Print all fields of each revision
  {command} history {name} -o yaml";

/// The flags of `history`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Name of the {one}
    name: String,
    /// Print the revisions with all fields as json or yaml, or their numbers as name
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    output: Option<Format>,
}

/// Runs the command.
pub async fn run(args: Args, kind: Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let cluster = kube.connect().await?.about(kind);
    let app = find(&cluster, &args.name).await?;
    let revisions = fetch(&cluster, &app).await?;
    if revisions.is_empty() {
        ui.eprintln(&format!("{} has no revisions yet.", app.title()));
        return Ok(());
    }
    ui.print(&match args.output {
        None => table(&revisions, Timestamp::now())
            .fit("CHANGE", ui.width())
            .text(ui.render_options().color),
        Some(Format::Json) => formats::json(&list(&revisions))?,
        Some(Format::Yaml) => crate::output::yaml::write(&list(&revisions))?,
        Some(Format::Name) => {
            let numbers: Vec<String> = revisions.iter().map(|one| one.number.to_string()).collect();
            numbers.join("\n")
        }
    })
}

/// Returns the table, the newest at the end, where a terminal shows it.
fn table(revisions: &[Revision], now: Timestamp) -> Table {
    let mut table = Table::new(vec!["REVISION", "PODS", "STATUS", "IMAGE", "CHANGE", "AGE"]);
    let mut before: Option<&Revision> = None;
    let newest = revisions.len().saturating_sub(1);
    for (number, one) in revisions.iter().enumerate() {
        let change = before.map_or_else(|| "-".to_owned(), |before| difference::between(before, one));
        let pods = if one.serves() {
            Cell::styled(format!("{}/{}", one.ready, one.wanted), Style::Good)
        } else {
            Cell::from(format!("{}/{}", one.ready, one.wanted))
        };
        table.row(vec![
            one.number.to_string().into(),
            pods,
            state(one, number == newest),
            one.image().into(),
            change.into(),
            age::age(one.created.as_ref(), now).into(),
        ]);
        before = Some(one);
    }
    table
}

/// Returns the state of a revision, in one word.
fn state(one: &Revision, is_newest: bool) -> Cell {
    match (one.serves(), is_newest, one.became_ready) {
        (true, _, _) => Cell::styled("Serving", Style::Good),
        (false, true, _) => Cell::styled("NotReady", Style::Busy),
        (false, false, Some(false)) => Cell::styled("NeverReady", Style::Bad),
        (false, false, Some(true)) => "Superseded".into(),
        (false, false, None) => "<unknown>".into(),
    }
}

/// Returns the revisions as one object.
fn list(revisions: &[Revision]) -> Value {
    let mut before: Option<&Revision> = None;
    let items = revisions.iter().map(|one| {
        let change = before.map(|before| difference::between(before, one));
        before = Some(one);
        json!({"revision": one.number, "created": one.created, "readyPods": one.ready, "pods": one.wanted, "becameReady": one.became_ready, "change": change,
            "restartedAt": one.restarted, "template": one.pod, "notExpressible": one.left})
    });
    json!({"revisions": items.collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::table::Table;

    fn revision(number: u64, pod: Value, ready: i32) -> Revision {
        Revision {
            number,
            created: None,
            pod: serde_json::from_value(pod).unwrap(),
            left: Vec::new(),
            restarted: None,
            became_ready: None,
            ready,
            wanted: ready,
        }
    }

    #[test]
    fn revision_that_serves_is_named_while_the_newest_is_not_ready() {
        let bad = Revision {
            wanted: 1,
            ..revision(2, json!({"image": "nginx:9"}), 0)
        };
        let table = table(
            &[revision(1, json!({"image": "nginx:1"}), 2), bad],
            Timestamp::UNIX_EPOCH,
        );
        insta::assert_snapshot!(table.text(false), @r"
        REVISION   PODS   STATUS     IMAGE     CHANGE   AGE
        1          2/2    Serving    nginx:1   -        <unknown>
        2          0/1    NotReady   nginx:9   image    <unknown>
        ");
    }

    #[test]
    fn each_revision_is_shown_with_what_it_changed() {
        let mut restarted = revision(5, json!({"image": "nginx:2", "port": 80}), 2);
        restarted.restarted = Some("2026-01-01T00:00:00Z".to_owned());
        let became_ready = |became_ready, revision| Revision {
            became_ready: Some(became_ready),
            ..revision
        };
        let bad = json!({"image": "nginx:2", "env": [{"name": "A", "value": "b"}]});
        let revisions = [
            revision(1, json!({"image": "nginx:1"}), 0),
            became_ready(true, revision(2, json!({"image": "nginx:1", "port": 80}), 0)),
            became_ready(false, revision(3, bad, 0)),
            revision(4, json!({"image": "nginx:2", "port": 80}), 1),
            restarted,
        ];
        let table: Table = table(&revisions, Timestamp::UNIX_EPOCH);
        insta::assert_snapshot!(table.text(false), @r"
        REVISION   PODS   STATUS       IMAGE     CHANGE               AGE
        1          0/0    <unknown>    nginx:1   -                    <unknown>
        2          0/0    Superseded   nginx:1   port                 <unknown>
        3          0/0    NeverReady   nginx:2   image, env A, port   <unknown>
        4          1/1    Serving      nginx:2   env A, port          <unknown>
        5          2/2    Serving      nginx:2   restart              <unknown>
        ");
    }
}
