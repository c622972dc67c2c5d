//! The URL of a database: read without help from the environment, and held against what may be reached.
//!
//! A URL comes from an administrator of a realm, who need not be the operator of this machine. So a Postgres is under the egress
//! rules like every other server, and a file is reached in the one folder that the operator names for that.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use toolwright_store::{Address, PostgresAddress, Tls};
use toolwright_tools::http::{Lookup, SystemLookup};
use url::{Host, Url};

use super::Reachable;

const FORMS: &str = "write `postgres://user:password@host/database` or `sqlite:file.db`";

/// Reads a URL. What is wrong is told without a word of the URL, which has a password.
pub(super) fn parse(text: &str) -> Result<Address, String> {
    let text = text.trim();
    if let Some(path) = text.strip_prefix("sqlite:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        return match path {
            "" => Err(format!("it names no file; {FORMS}")),
            path if path.contains(['?', '\0']) || path.contains(":memory:") => {
                Err("a SQLite URL is a path and nothing else".to_owned())
            }
            path => Ok(Address::Sqlite(PathBuf::from(path))),
        };
    }
    let url = Url::parse(text).map_err(|error| format!("it is no URL ({error}); {FORMS}"))?;
    if !matches!(url.scheme(), "postgres" | "postgresql") {
        return Err(format!("it is no URL of a database; {FORMS}"));
    }
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let host = match url.host() {
        Some(Host::Domain(name)) => decoded(name),
        Some(Host::Ipv4(address)) => address.to_string(),
        Some(Host::Ipv6(address)) => address.to_string(),
        None => return Err(format!("it names no host; {FORMS}")),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if host.is_empty() || !host.chars().all(plain) {
        return Err("its host is no name and no address; a socket in the file system cannot be used".to_owned());
    }
    let user = decoded(url.username());
    if user.is_empty() {
        return Err(format!("it names no user; {FORMS}"));
    }
    let database = decoded(url.path().trim_start_matches('/'));
    Ok(Address::Postgres(PostgresAddress {
        host,
        port: url.port().unwrap_or(5432),
        database: if database.is_empty() { user.clone() } else { database },
        user,
        password: decoded(url.password().unwrap_or_default()).into(),
        tls: tls(&url)?,
    }))
}

fn tls(url: &Url) -> Result<Tls, String> {
    let mut tls = Tls::Prefer;
    for (name, value) in url.query_pairs() {
        tls = match (name.as_ref(), value.as_ref()) {
            ("sslmode", "disable") => Tls::Off,
            ("sslmode", "prefer") => Tls::Prefer,
            ("sslmode", "require") => Tls::Require,
            ("sslmode", "verify-full") => Tls::VerifyFull,
            ("sslmode", _) => return Err("`sslmode` is `disable`, `prefer`, `require` or `verify-full`".to_owned()),
            _ => return Err("after `?` only `sslmode` may stand".to_owned()),
        };
    }
    Ok(tls)
}

/// The address to connect to, if that is permitted.
pub(super) async fn permitted(address: Address, reachable: &Reachable) -> Result<Address, String> {
    match address {
        Address::Sqlite(path) => file(&path, reachable).map(Address::Sqlite),
        Address::Postgres(postgres) => server(postgres, reachable).await.map(Address::Postgres),
    }
}

/// The address that was checked is the one that is used. Only where the server proves its name by a certificate is the name
/// kept: a name that leads elsewhere the second time gains nothing there.
async fn server(mut address: PostgresAddress, reachable: &Reachable) -> Result<PostgresAddress, String> {
    let found: Vec<IpAddr> = match address.host.parse() {
        Ok(literal) => vec![literal],
        Err(_) => {
            let unknown = |error| format!("nothing is known of the host `{}`: {error}", address.host);
            SystemLookup.lookup(address.host.clone()).await.map_err(unknown)?
        }
    };
    let refused = |found: IpAddr| {
        format!(
            "`{}` is {found}, which is not a public address; list its network in TOOLWRIGHT_EGRESS_ALLOW to permit it",
            address.host
        )
    };
    let (allowed, others): (Vec<IpAddr>, Vec<IpAddr>) =
        found.into_iter().partition(|found| reachable.egress.permits(*found));
    match (allowed.first(), others.first()) {
        (None, None) => Err(format!("the host `{}` has no address", address.host)),
        (None, Some(other)) => Err(refused(*other)),
        (Some(_), Some(other)) if address.tls == Tls::VerifyFull => Err(refused(*other)),
        (Some(_), _) if address.tls == Tls::VerifyFull => Ok(address),
        (Some(first), _) => {
            address.host = first.to_string();
            Ok(address)
        }
    }
}

/// A file in the folder for such files, wherever links lead.
fn file(path: &Path, reachable: &Reachable) -> Result<PathBuf, String> {
    let Some(folder) = &reachable.sqlite_folder else {
        return Err(
            "this server reads no SQLite files; its operator names a folder for them in TOOLWRIGHT_SQLITE_FOLDER"
                .to_owned(),
        );
    };
    let unusable = |_| "the folder for SQLite files does not exist".to_owned();
    let folder = folder.canonicalize().map_err(unusable)?;
    // One message for all of it: what else is on this machine is not told.
    let missing = || "there is no such file in the folder for SQLite files".to_owned();
    let file = folder.join(path).canonicalize().map_err(|_| missing())?;
    let own = reachable.own_folder.canonicalize().is_ok_and(|own| file.starts_with(own));
    if own || !file.starts_with(&folder) || !file.is_file() { Err(missing()) } else { Ok(file) }
}

/// `schema.table` in its parts.
pub(crate) fn schema_and_table(text: &str) -> (&str, &str) {
    text.split_once('.').unwrap_or(("public", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_or_refused_without_their_password() {
        for (url, expected) in [
            ("postgres://ann:s%40crt@db.example.com/shop", Ok("db.example.com:5432/shop ann Prefer")),
            ("postgresql://ann@[2606:4700::1]:6000", Ok("2606:4700::1:6000/ann ann Prefer")),
            ("postgres://ann:s@h/d?sslmode=verify-full", Ok("h:5432/d ann VerifyFull")),
            ("postgres://ann:s3cr3t@h/d?host=/tmp", Err("sslmode")),
            ("postgres://ann:s3cr3t@h/d?sslmode=allow", Err("verify-full")),
            ("postgres://ann:s3cr3t@%2Ftmp/d", Err("socket")),
            ("postgres:///d", Err("host")),
            ("postgres://h/d", Err("user")),
            ("mysql://ann:s3cr3t@h/d", Err("no URL of a database")),
            ("s3cr3t", Err("no URL")),
            ("sqlite:", Err("no file")),
            ("sqlite::memory:", Err("path and nothing else")),
            ("sqlite:a.db?mode=rwc", Err("path and nothing else")),
        ] {
            match (parse(url), expected) {
                (Ok(Address::Postgres(found)), Ok(expected)) => {
                    let PostgresAddress { host, port, database, user, tls, .. } = found;
                    assert_eq!(format!("{host}:{port}/{database} {user} {tls:?}"), expected);
                }
                (Err(message), Err(part)) => {
                    assert!(message.contains(part) && !message.contains("s3cr3t"), "{url}: {message}");
                }
                (found, _) => panic!("{url}: {found:?}"),
            }
        }
    }

    #[test]
    fn files_are_reached_in_their_folder_only() {
        let outside = tempfile::tempdir().unwrap();
        let (folder, own) = (outside.path().join("files"), outside.path().join("files/own"));
        std::fs::create_dir_all(&own).unwrap();
        for path in [outside.path().join("other.db"), folder.join("shop.db"), own.join("toolwright.db")] {
            std::fs::write(path, "").unwrap();
        }
        std::os::unix::fs::symlink(outside.path().join("other.db"), folder.join("link.db")).unwrap();
        let reachable = Reachable { sqlite_folder: Some(folder.clone()), own_folder: own, ..Reachable::default() };
        let reached = |path: &str| file(Path::new(path), &reachable).is_ok();
        assert!(reached("shop.db") && reached(folder.join("shop.db").to_str().unwrap()));
        let absolute = outside.path().join("other.db");
        for path in
            ["../other.db", absolute.to_str().unwrap(), "link.db", "own/toolwright.db", "none.db", ".", "/etc/passwd"]
        {
            assert!(!reached(path), "{path}");
        }
        assert!(file(Path::new("shop.db"), &Reachable::default()).unwrap_err().contains("TOOLWRIGHT_SQLITE_FOLDER"));
    }

    #[tokio::test]
    async fn servers_are_under_the_egress_rules() {
        let with = |host: &str, tls: &str| match parse(&format!("postgres://a:b@{host}/d{tls}")) {
            Ok(Address::Postgres(address)) => address,
            other => panic!("{other:?}"),
        };
        let open = Reachable {
            egress: toolwright_tools::http::Egress::allowing([
                "127.0.0.0/8".parse().unwrap(),
                "::1/128".parse().unwrap(),
            ]),
            ..Reachable::default()
        };
        for host in ["127.0.0.1", "10.0.0.1", "localhost", "[::1]"] {
            let refused = server(with(host, ""), &Reachable::default()).await.unwrap_err();
            assert!(refused.contains("not a public address"), "{host}: {refused}");
        }
        let pinned = server(with("localhost", ""), &open).await.unwrap();
        assert!(pinned.host.parse::<IpAddr>().is_ok(), "{}", pinned.host);
        assert_eq!(server(with("localhost", "?sslmode=verify-full"), &open).await.unwrap().host, "localhost");
    }
}
