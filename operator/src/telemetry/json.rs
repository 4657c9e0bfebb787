//! Log lines as flat JSON objects: the fields of the event, and those of its spans.

use std::fmt::{self, Debug};

use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::Record;
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, Scope};

/// Stores the fields of a span as JSON objects, one per line. They are merged when an event is logged, which is rare.
pub struct Fields;

impl<'writer> FormatFields<'writer> for Fields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut object = Object::default();
        fields.record(&mut object);
        write!(writer, "{}", Value::Object(object.0))
    }

    fn add_fields(&self, current: &'writer mut FormattedFields<Self>, fields: &Record<'_>) -> fmt::Result {
        current.fields.push('\n');
        self.format_fields(current.as_writer(), fields)
    }
}

/// Writes an event as one line.
pub struct Lines;

impl<S> FormatEvent<S, Fields> for Lines
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, Fields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let mut line = Object::default();
        line.put("timestamp", Timestamp::now().to_string());
        line.put("level", metadata.level().as_str());
        line.put("target", metadata.target());
        // Fields of the event have precedence.
        let mut said = Object::default();
        event.record(&mut said);
        for span in context.event_scope().into_iter().flat_map(Scope::from_root) {
            let extensions = span.extensions();
            let fields = extensions.get::<FormattedFields<Fields>>();
            for object in fields.map_or("", |fields| &fields.fields).lines() {
                if let Ok(Value::Object(fields)) = serde_json::from_str(object) {
                    line.0.extend(fields);
                }
            }
        }
        line.0.extend(said.0);
        writeln!(writer, "{}", Value::Object(line.0))
    }
}

/// Collects fields.
#[derive(Default)]
struct Object(Map<String, Value>);

impl Object {
    fn put(&mut self, name: &str, value: impl Into<Value>) {
        // A field that is a keyword of Rust.
        let name = name.strip_prefix("r#").unwrap_or(name);
        self.0.insert(name.to_owned(), value.into());
    }
}

impl Visit for Object {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put(field.name(), crate::watch::chain(value));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use tracing::{error_span, info};
    use tracing_subscriber::fmt::MakeWriter;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Paper {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    #[test]
    fn line_has_the_fields_of_its_spans() {
        let paper = Paper::default();
        let lines = tracing_subscriber::fmt::layer()
            .fmt_fields(Fields)
            .event_format(Lines)
            .with_writer(paper.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            let outer = error_span!("outer", name = "web", generation = tracing::field::Empty, depth = 1);
            let _outer = outer.enter();
            outer.record("generation", 3);
            let _inner = error_span!("inner", depth = 2, r#type = "x").entered();
            info!(why = "two\nlines \"quoted\"", ok = true, "said {}", 1);
        });
        let text = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let mut line: Value = serde_json::from_str(&text).unwrap();
        let time = line.as_object_mut().unwrap().remove("timestamp").unwrap();
        assert!(time.as_str().unwrap().parse::<Timestamp>().is_ok(), "{time}");
        let expected = serde_json::json!({
            "level": "INFO", "target": "operator::telemetry::json::tests", "message": "said 1",
            "why": "two\nlines \"quoted\"", "ok": true, "name": "web", "generation": 3, "depth": 2, "type": "x",
        });
        assert_eq!(line, expected);
    }
}
