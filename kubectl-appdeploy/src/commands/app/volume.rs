//! Volumes as they are written on a command line: `[NAME=]SOURCE:PATH`, as in Docker.

use crd::{ConfigMapVolume, EmptyDirVolume, ImageVolume, SecretVolume, Volume};

/// Reads a volume, such as `configmap/shop:/etc/shop`. Its default name is derived from the source.
pub fn parse(text: &str) -> Result<Volume, String> {
    let wrong =
        || "write it like configmap/shop:/etc/shop, secret/keys:/keys, emptydir:/tmp or image/assets:1.4:/assets";
    let (source, directory) = text.rsplit_once(":/").ok_or_else(wrong)?;
    let (name, source) = match source.split_once('=') {
        Some((name, source)) => (Some(name), source),
        None => (None, source),
    };
    let (kind, object) = source.split_once('/').unwrap_or((source, ""));
    let mut volume = Volume {
        mount_path: Some(format!("/{directory}")),
        ..Volume::default()
    };
    let named = match (kind, object) {
        ("emptydir", "") => {
            volume.empty_dir = Some(EmptyDirVolume::default());
            directory
        }
        (_, "") => return Err(wrong().to_owned()),
        ("configmap" | "configmaps" | "cm", object) => {
            volume.config_map = Some(ConfigMapVolume {
                name: object.to_owned(),
                ..ConfigMapVolume::default()
            });
            object
        }
        ("secret" | "secrets", object) => {
            volume.secret = Some(SecretVolume {
                secret_name: object.to_owned(),
                ..SecretVolume::default()
            });
            object
        }
        ("image", image) => {
            volume.image = Some(ImageVolume {
                reference: image.to_owned(),
                pull_policy: None,
            });
            let last = image.rsplit('/').next().unwrap_or(image);
            last.split([':', '@']).next().unwrap_or(last)
        }
        _ => return Err(wrong().to_owned()),
    };
    volume.name = name.map_or_else(|| label(named), str::to_owned);
    Ok(volume)
}

/// Returns a DNS label that is like a text.
fn label(text: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let label: String = text.trim_start_matches('-').chars().map(plain).take(63).collect();
    label.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn volumes_are_read_with_a_name_or_without() {
        for (text, volume) in [
            (
                "configmap/shop.conf:/etc/shop",
                json!({"name": "shop-conf", "mountPath": "/etc/shop", "configMap": {"name": "shop.conf"}}),
            ),
            (
                "config=cm/shop:/etc/shop",
                json!({"name": "config", "mountPath": "/etc/shop", "configMap": {"name": "shop"}}),
            ),
            (
                "secret/keys:/keys",
                json!({"name": "keys", "mountPath": "/keys", "secret": {"secretName": "keys"}}),
            ),
            (
                "emptydir:/var/cache/nginx",
                json!({"name": "var-cache-nginx", "mountPath": "/var/cache/nginx", "emptyDir": {}}),
            ),
            (
                "image/localhost:5000/acme/assets:1.4:/assets",
                json!({"name": "assets", "mountPath": "/assets", "image": {"reference": "localhost:5000/acme/assets:1.4"}}),
            ),
        ] {
            assert_eq!(json!(parse(text).unwrap()), volume, "{text}");
        }
        for text in [
            "",
            "shop",
            "configmap/shop",
            "configmap/:/a",
            "emptydir/a:/a",
            "hostpath//:/a",
            "pvc/data:/a",
        ] {
            assert!(parse(text).unwrap_err().starts_with("write it like"), "{text}");
        }
    }
}
