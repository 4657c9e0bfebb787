//! A watch on a terminal: the page is redrawn when something changes.

use std::time::Duration;

use futures::stream::{BoxStream, SelectAll};
use futures::{FutureExt as _, Stream, StreamExt as _, stream};
use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::runtime::watcher::Event;
use tokio::time::Instant;

use super::ended;
use crate::cluster::connection::Cluster;
use crate::cluster::known::ObjectCache;
use crate::cluster::watch::{Change, Changes, Connection, ConnectionEvent};
use crate::commands::observe::status::{Args, Format, list, page, page as one};
use crate::diagnosis::probe::{self, ProbeRequest};
use crate::diagnosis::request_path::PathContext;
use crate::error::Result;
use crate::resource::children::{self, Children, Live, Update};
use crate::resource::custom_resource::CustomResource;
use crate::resource::workload::Workload;
use crate::terminal::ui::{AltScreen, Style, Ui};

/// Minimum time between two redraws.
const FLICKER: Duration = Duration::from_millis(200);
/// Ages grow also while nothing changes.
const TICK: Duration = Duration::from_secs(10);

/// An event that changes the page.
enum ScreenEvent {
    /// An app or a pod set changed.
    Change(Box<Change<Event<DynamicObject>>>),
    /// Something that belongs to it changed.
    Part(Update),
    /// The page looks different although nothing changed.
    Redraw,
}

/// Draws pages until the watch ends. `first` is the watched app, and `all` the last known state.
pub async fn run(
    args: &Args,
    cluster: &Cluster,
    first: Option<CustomResource>,
    (changes, mut connection): (Changes<Event<DynamicObject>>, Connection),
    all: &mut Vec<CustomResource>,
    ui: &mut Ui,
) -> Result<()> {
    let mut wakes: SelectAll<BoxStream<'static, Result<ScreenEvent>>> = SelectAll::new();
    wakes.push(
        changes
            .map(|change| change.map(|change| ScreenEvent::Change(Box::new(change))))
            .boxed(),
    );
    let first = first.as_ref().and_then(workload);
    if let Some(first) = first {
        let parts = children::watch(cluster, first);
        wakes.push(parts.map(|news| Ok(ScreenEvent::Part(news))).boxed());
    }
    wakes.push(clock().chain(stream::pending()).boxed());
    wakes.push(resizes().boxed());
    let mut view = View {
        args,
        cluster,
        live: Live::default(),
        asked: ProbeState::default(),
        lost: None,
    };
    let mut known = ObjectCache::default();
    let mut stage = AltScreen::new(ui);
    let mut secret = first.and_then(children::tls_secret).map(str::to_owned);
    let mut drawn = None::<Instant>;
    while let Some(wake) = wakes.next().await {
        let mut pending = vec![wake?];
        // Drawn immediately after a pause, and not more often than this.
        if let Some(drawn) = drawn {
            tokio::time::sleep_until(drawn + FLICKER).await;
        }
        while let Some(Some(more)) = wakes.next().now_or_never() {
            pending.push(more?);
        }
        for wake in pending {
            match wake {
                ScreenEvent::Change(change) => {
                    let (event, said) = connection.judge(*change)?;
                    match said {
                        Some(ConnectionEvent::Lost(why)) => view.lost = Some(why),
                        Some(ConnectionEvent::Restored) => view.lost = None,
                        None => {}
                    }
                    drop(event.map(|event| known.take(event)));
                }
                ScreenEvent::Part(news) => news(&mut view.live),
                ScreenEvent::Redraw => {}
            }
        }
        if !known.is_complete() {
            continue;
        }
        *all = known
            .all()
            .map(|object| CustomResource::read(cluster.kind_info(), object))
            .collect();
        // Another Secret than at first wants a watch of its own.
        if let (Some(_), Some(now)) = (first, all.first().and_then(workload))
            && children::tls_secret(now) != secret.as_deref()
        {
            secret = children::tls_secret(now).map(str::to_owned);
            view.live.forget_secret();
            let news = children::watch_secret(cluster, now);
            wakes.extend(news.map(|news| news.map(|news| Ok(ScreenEvent::Part(news))).boxed()));
        }
        if let Some(text) = view.text(all, stage.ui()).await {
            stage.draw(&text)?;
            drawn = Some(Instant::now());
        }
        if let Some(end) = ended(args, cluster, all) {
            // A state that is reached before the children were read is shown once, too.
            if let (None, Some(_), Some(object)) = (drawn, first, known.all().next())
                && end.is_ok()
            {
                let text = Box::pin(one(args, cluster, object, stage.ui())).await?;
                stage.draw(&text)?;
            }
            return end;
        }
        if !args.which.names.is_empty() && all.is_empty() {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns an app or a pod set, which have a page with their children.
const fn workload(one: &CustomResource) -> Option<&Workload> {
    match one {
        CustomResource::Workload(workload) => Some(workload),
        CustomResource::Queue(_) => None,
    }
}

fn clock() -> impl Stream<Item = Result<ScreenEvent>> + Send + 'static {
    stream::unfold((), |()| async {
        tokio::time::sleep(TICK).await;
        Some((Ok(ScreenEvent::Redraw), ()))
    })
}

/// Reports changes of the terminal's size.
#[cfg(unix)]
fn resizes() -> impl Stream<Item = Result<ScreenEvent>> + Send + 'static {
    use tokio::signal::unix::{SignalKind, signal};
    // Without the signal, the next change redraws the page.
    let signals = signal(SignalKind::window_change()).ok();
    stream::iter(signals)
        .flat_map(|signals| {
            stream::unfold(signals, |mut signals| async {
                signals.recv().await.map(|()| (Ok(ScreenEvent::Redraw), signals))
            })
        })
        .chain(stream::pending())
}

#[cfg(not(unix))]
fn resizes() -> impl Stream<Item = Result<ScreenEvent>> + Send + 'static {
    stream::pending()
}

/// The page and its data.
struct View<'a> {
    args: &'a Args,
    cluster: &'a Cluster,
    live: Live,
    asked: ProbeState,
    /// Why the page may be outdated.
    lost: Option<String>,
}

/// The answer to a question that is asked once.
#[derive(Default)]
struct ProbeState {
    question: Option<ProbeRequest>,
    asked: PathContext,
}

impl View<'_> {
    /// Returns the page, below a warning if it may be outdated; `None` as long as not all is known that it shows.
    async fn text(&mut self, all: &[CustomResource], ui: &Ui) -> Option<String> {
        let page = self.page_of(all, ui).await?;
        Some(match &self.lost {
            Some(why) => format!(
                "{}\n{page}",
                ui.render_options().styled(Style::Busy, "", "Warning:", why)
            ),
            None => page,
        })
    }

    async fn page_of(&mut self, all: &[CustomResource], ui: &Ui) -> Option<String> {
        let now = Timestamp::now();
        match (self.args.single(), all.first()) {
            (Some(name), None) => Some(format!("{} was deleted", self.cluster.title(name))),
            (Some(_), Some(CustomResource::Workload(workload))) => {
                let children = self.live.children(workload)?;
                self.ask(ProbeRequest::about(workload, &children, now)).await;
                Some(self.page(workload, &children, now, ui))
            }
            (None, None) => Some(format!("No {} found.", self.cluster.kind_info().many)),
            (_, Some(_)) => {
                self.ask(ProbeRequest::about_all(all, now)).await;
                let absence = self.asked.asked.absence.clone().filter(|_| !self.args.no_headers);
                Some(list::text(all, self.args.view(), absence, now, &ui.render_options()))
            }
        }
    }

    fn page(&self, workload: &Workload, children: &Children, now: Timestamp, ui: &Ui) -> String {
        let page = page::Page {
            workload,
            children,
            asked: &self.asked.asked,
            wide: self.args.output == Some(Format::Wide),
            now,
        };
        page::text(&page, &ui.render_options())
    }

    async fn ask(&mut self, question: ProbeRequest) {
        if self.asked.question.as_ref() != Some(&question) {
            self.asked.asked = probe::fetch(self.cluster, &question).await;
            self.asked.question = Some(question);
        }
    }
}
