//! Calls about messages, for tests.

use serde::Deserialize;
use serde_json::json;

use super::Client;
use crate::error::Error;
use crate::protocol::Action;

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Message {
    /// The text.
    pub body: String,
    /// What [`Client::delete_message`] needs.
    pub receipt_handle: String,
}

#[derive(Debug, Deserialize)]
struct Messages {
    #[serde(rename = "Messages")]
    messages: Option<Vec<Message>>,
}

impl Client {
    /// Sends a message, for a FIFO queue with a group.
    ///
    /// # Errors
    /// [`Error::NoSuchQueue`] if the queue does not exist.
    pub async fn send_message(&self, url: &str, body: &str, group: Option<&str>) -> Result<(), Error> {
        let mut request = json!({ "QueueUrl": url, "MessageBody": body });
        if let Some(group) = group {
            request["MessageGroupId"] = json!(group);
        }
        let _: serde_json::Value = self.call(Action::write("SendMessage"), request).await?;
        Ok(())
    }

    /// Receives up to ten messages, and waits up to `wait` seconds for the first one.
    ///
    /// # Errors
    /// [`Error::NoSuchQueue`] if the queue does not exist.
    pub async fn receive_messages(&self, url: &str, wait: u32) -> Result<Vec<Message>, Error> {
        let request = json!({ "QueueUrl": url, "MaxNumberOfMessages": 10, "WaitTimeSeconds": wait });
        let answer: Messages = self.call(Action::write("ReceiveMessage"), request).await?;
        Ok(answer.messages.unwrap_or_default())
    }

    /// Deletes a received message.
    ///
    /// # Errors
    /// [`Error::NoSuchQueue`] if the queue does not exist.
    pub async fn delete_message(&self, url: &str, message: &Message) -> Result<(), Error> {
        let request = json!({ "QueueUrl": url, "ReceiptHandle": message.receipt_handle });
        self.write("DeleteMessage", request).await
    }
}
