//! Test vectors of AWS for Signature Version 4.
//!
//! From the folder `aws-signing-test-suite/v4` of the crate `aws-sigv4` 1.6.4 (Amazon, Apache-2.0): the requests without a
//! query whose path is `/`, with the hash of the canonical request (the last line of `header-string-to-sign.txt`) and
//! `header-signature.txt`.

use super::*;

const TIME: &str = "20150830T123600Z";
const EMPTY: &[u8] = b"";
/// The token of `get-vanilla-with-session-token`.
const TOKEN: &str = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";

struct Vector {
    name: &'static str,
    method: &'static str,
    /// Without `Host` and `X-Amz-Date`, which are the same everywhere.
    headers: &'static [(&'static str, &'static str)],
    body: &'static [u8],
    canonical_hash: &'static str,
    signature: &'static str,
}

const VECTORS: [Vector; 9] = [
    Vector {
        name: "get-vanilla",
        method: "GET",
        headers: &[],
        body: EMPTY,
        canonical_hash: "bb579772317eb040ac9ed261061d46c1f17a8133879d6129b6e1c25292927e63",
        signature: "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    },
    Vector {
        name: "get-vanilla-with-session-token",
        method: "GET",
        headers: &[("X-Amz-Security-Token", TOKEN)],
        body: EMPTY,
        canonical_hash: "067b36aa60031588cea4a4cde1f21215227a047690c72247f1d70b32fbbfad2b",
        signature: "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8",
    },
    Vector {
        name: "post-vanilla",
        method: "POST",
        headers: &[],
        body: EMPTY,
        canonical_hash: "553f88c9e4d10fc9e109e2aeb65f030801b70c2f6468faca261d401ae622fc87",
        signature: "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
    },
    Vector {
        name: "post-header-value-case",
        method: "POST",
        headers: &[("My-Header1", "VALUE1")],
        body: EMPTY,
        canonical_hash: "d51ced243e649e3de6ef63afbbdcbca03131a21a7103a1583706a64618606a93",
        signature: "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d",
    },
    Vector {
        name: "get-header-value-trim",
        method: "GET",
        headers: &[("My-Header1", " value1"), ("My-Header2", " \"a   b   c\"")],
        body: EMPTY,
        canonical_hash: "a726db9b0df21c14f559d0a978e563112acb1b9e05476f0a6a1c7d68f28605c7",
        signature: "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
    },
    Vector {
        name: "get-header-value-multiline",
        method: "GET",
        headers: &[("My-Header1", "value1\n  value2\n     value3")],
        body: EMPTY,
        canonical_hash: "e99419459a677bc11de234014be3c4e72c1ea5b454ceb58b613061f5d7a162e8",
        signature: "cfd34249e4b1c8d6b91ef74165d41a32e5fab3306300901bb65a51a73575eefd",
    },
    Vector {
        name: "get-header-key-duplicate",
        method: "GET",
        headers: &[
            ("My-Header1", "value2"),
            ("My-Header1", "value2"),
            ("My-Header1", "value1"),
        ],
        body: EMPTY,
        canonical_hash: "dc7f04a3abfde8d472b0ab1a418b741b7c67174dad1551b4117b15527fbe966c",
        signature: "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
    },
    Vector {
        name: "get-header-value-order",
        method: "GET",
        headers: &[
            ("My-Header1", "value4"),
            ("My-Header1", "value1"),
            ("My-Header1", "value3"),
            ("My-Header1", "value2"),
        ],
        body: EMPTY,
        canonical_hash: "31ce73cd3f3d9f66977ad3dd957dc47af14df92fcd8509f59b349e9137c58b86",
        signature: "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01",
    },
    Vector {
        name: "post-x-www-form-urlencoded",
        method: "POST",
        headers: &[
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("Content-Length", "13"),
            (
                "x-amz-content-sha256",
                "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e",
            ),
        ],
        body: b"Param1=value1",
        canonical_hash: "b1edd1d03544c25390e32085d55b57acc9a3961bb59415ff86c45c3d89d16cfb",
        signature: "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b",
    },
];

fn scope() -> Scope<'static> {
    Scope {
        region: "us-east-1",
        service: "service",
        time: TIME,
    }
}

fn credentials() -> Credentials {
    Credentials::new(
        "AKIDEXAMPLE".into(),
        "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
        None,
    )
}

#[test]
fn requests_of_the_test_suite_have_its_signatures() {
    for vector in VECTORS {
        let mut headers = vector.headers.to_vec();
        headers.extend([("X-Amz-Date", TIME), ("Host", "example.amazonaws.com")]);
        let request = Request {
            method: vector.method,
            path: "/",
            headers: &headers,
            body: vector.body,
        };
        let canonical = canonical_request(&request);
        assert_eq!(
            hash(canonical.as_bytes()),
            vector.canonical_hash,
            "{}: {canonical}",
            vector.name
        );
        let header = authorization(&request, &scope(), &credentials());
        let signature = header.rsplit_once("Signature=").unwrap().1;
        assert_eq!(signature, vector.signature, "{}", vector.name);
    }
}

#[test]
fn authorization_header_of_get_vanilla() {
    let request = Request {
        method: "GET",
        path: "/",
        headers: &[("Host", "example.amazonaws.com"), ("X-Amz-Date", TIME)],
        body: EMPTY,
    };
    assert_eq!(
        authorization(&request, &scope(), &credentials()),
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
         SignedHeaders=host;x-amz-date, \
         Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
    );
}
