//! What depends on the table of children outside of the code: manifests.

use model::CHILDREN;

use crate::harness::config;

/// Returns the lists of a flow-style YAML field, such as `verbs: [get, list]`.
fn list(rule: &str, field: &str) -> Vec<String> {
    let start = format!("{field}: [");
    let line = rule
        .split_once(&start)
        .and_then(|(_, rest)| rest.split_once(']'))
        .unwrap()
        .0;
    let mut words: Vec<String> = line.split(", ").map(|word| word.trim_matches('"').to_owned()).collect();
    words.sort();
    words
}

#[test]
fn operators_role_has_the_rights_of_each_kind() {
    let manifest = config("rbac/operator_role.yaml");
    for kind in CHILDREN {
        let resources = format!("resources: [{}]", kind.plural);
        let rule = manifest.split("\n- apiGroups").find(|rule| rule.contains(&resources));
        let rule = format!("apiGroups{}", rule.unwrap());
        assert_eq!(list(&rule, "apiGroups"), [kind.group], "{kind}");
        assert_eq!(list(&rule, "verbs"), kind.verbs, "{kind}");
    }
}

#[test]
fn admission_policy_confines_the_writes_of_each_kind() {
    let policy = config("policy/operator.yaml");
    let line = |start: &str| {
        policy
            .split_once(start)
            .and_then(|(_, rest)| rest.split_once(']'))
            .unwrap()
            .0
    };
    let children = line("- name: isChild\n    expression: >-\n      variables.resource in [");
    let deleted = line("\n      : variables.resource in ['/pods',");
    for kind in CHILDREN {
        let resource = format!("'{}/{}'", kind.group, kind.plural);
        assert!(children.contains(&resource), "{kind}");
        assert_eq!(deleted.contains(&resource), kind.verbs.contains(&"delete"), "{kind}");
    }
}
