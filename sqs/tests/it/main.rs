//! Tests of the client with real servers, and with servers that fail.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what a test needs and does not get is its failure"
)]

mod authentication;
mod failures;
mod queues;
mod scripted;
mod servers;
mod tls;

/// Runs each test of `queues` with a server.
macro_rules! suite {
    ($module:ident, $server:ident: $($test:ident),* $(,)?) => {
        mod $module {
            $(
                #[tokio::test]
                async fn $test() {
                    let server = crate::servers::$server();
                    crate::queues::$test(&server).await;
                }
            )*
        }
    };
}

macro_rules! suites {
    ($($test:ident),* $(,)?) => {
        suite!(on_elasticmq, elasticmq: $($test),*);
        suite!(on_moto, moto: $($test),*);
    };
}

suites!(
    server_listens_on_the_given_address_only,
    created_queue_has_its_attributes_and_tags,
    attributes_that_a_server_does_not_support_are_missing,
    attributes_that_are_not_set_have_the_defaults_of_sqs,
    second_creation_returns_the_queue,
    second_creation_with_other_tags_is_refused_except_by_moto,
    second_creation_with_other_attributes_is_refused,
    only_named_attributes_are_changed,
    tags_are_added_replaced_and_removed,
    calls_about_a_missing_queue_say_so,
    deleted_queue_is_missing_and_can_be_created_again,
    fifo_queue_keeps_the_order,
    message_that_is_received_too_often_moves_to_the_dead_letter_queue,
    invalid_names_are_refused,
    invalid_attributes_are_refused,
    list_returns_queues_with_the_prefix,
);
