//! Connections to a cluster: requests, lists, watches, and the errors of API servers.

pub mod api_error;
pub mod confirm;
pub mod connect_error;
pub mod connection;
pub mod interrupt;
pub mod kind_info;
pub mod known;
pub mod pager;
pub mod wait;
pub mod watch;
