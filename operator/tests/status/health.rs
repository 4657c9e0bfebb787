//! Why a pod is not healthy: the operator asks once for the kubelet's Events about it.

use serde_json::json;

use crate::harness::{APP, DEPLOYMENT, POD, QUIET, text};
use crate::namespace;

#[test]
fn the_answer_of_a_health_check_is_asked_for_once_and_told() {
    let shop = namespace("health");
    let mark = shop.mark();
    shop.unhealthy_app("shop");
    let words = "the pods run, but GET /healthz on port 8080 answers with status 503";
    let app = shop.until(APP, "shop", "the answer is told", |app| {
        text(app, "/status/cause/message") == words
    });
    let next = "kubectl logs -n health -l appdeploy.dev/app=shop";
    assert_eq!(text(&app, "/status/cause/next"), next);

    // The app is looked at again, and its pod is still the same.
    shop.patch_status(POD, "shop-1", json!({"message": "something else"}));
    shop.patch_status(DEPLOYMENT, "shop", json!({"replicas": 2}));
    shop.until(APP, "shop", "it was looked at", |app| app["status"]["replicas"] == 2);
    std::thread::sleep(QUIET);
    let asked = shop
        .asked_since(mark)
        .on("events")
        .that(|request| request.verb == "list");
    assert_eq!(asked.count(), 1, "{:?}", asked.tally());
}
