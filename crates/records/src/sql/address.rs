//! Parses the URL of a database and checks that this server may access it. Environment variables such as `PGHOST` are
//! ignored.
//!
//! The URL comes from an administrator of a realm, who may not be the operator of this machine. So the egress policy
//! applies to Postgres servers, and SQLite files must be in the folder that the operator configured.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use toolwright_store::{DatabaseAddress, PostgresAddress, TlsMode};
use toolwright_tools::http::{DnsResolver, SystemDnsResolver};
use url::{Host, Url};

use super::DatabaseAccess;

const URL_FORMS: &str = "write `postgres://user:password@host/database` or `sqlite:file.db`";

/// Parses a URL. Errors never quote the URL, because it contains a password.
pub(super) fn parse(text: &str) -> Result<DatabaseAddress, String> {
    let text = text.trim();
    if let Some(path) = text.strip_prefix("sqlite:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        return match path {
            "" => Err(format!("a file is required; {URL_FORMS}")),
            path if path.contains(['?', '\0']) || path.contains(":memory:") => {
                Err("a SQLite URL must be a path without parameters".to_owned())
            }
            path => Ok(DatabaseAddress::Sqlite(PathBuf::from(path))),
        };
    }
    let url = Url::parse(text).map_err(|error| format!("must be a URL ({error}); {URL_FORMS}"))?;
    if !matches!(url.scheme(), "postgres" | "postgresql") {
        return Err(format!("must be the URL of a database; {URL_FORMS}"));
    }
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let host = match url.host() {
        Some(Host::Domain(name)) => decoded(name),
        Some(Host::Ipv4(address)) => address.to_string(),
        Some(Host::Ipv6(address)) => address.to_string(),
        None => return Err(format!("a host is required; {URL_FORMS}")),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if host.is_empty() || !host.chars().all(plain) {
        return Err("the host must be a name or an IP address; Unix sockets are not supported".to_owned());
    }
    let user = decoded(url.username());
    if user.is_empty() {
        return Err(format!("a user is required; {URL_FORMS}"));
    }
    let database = decoded(url.path().trim_start_matches('/'));
    Ok(DatabaseAddress::Postgres(PostgresAddress {
        host,
        port: url.port().unwrap_or(5432),
        database: if database.is_empty() { user.clone() } else { database },
        user,
        password: decoded(url.password().unwrap_or_default()).into(),
        tls: tls(&url)?,
    }))
}

fn tls(url: &Url) -> Result<TlsMode, String> {
    let mut tls = TlsMode::Prefer;
    for (name, value) in url.query_pairs() {
        tls = match (name.as_ref(), value.as_ref()) {
            ("sslmode", "disable") => TlsMode::Off,
            ("sslmode", "prefer") => TlsMode::Prefer,
            ("sslmode", "require") => TlsMode::Require,
            ("sslmode", "verify-full") => TlsMode::VerifyFull,
            ("sslmode", _) => {
                return Err("`sslmode` must be `disable`, `prefer`, `require` or `verify-full`".to_owned());
            }
            _ => return Err("the only supported parameter is `sslmode`".to_owned()),
        };
    }
    Ok(tls)
}

/// Returns the address to connect to, or an error if it is not permitted.
pub(super) async fn check_permitted(
    address: DatabaseAddress,
    access: &DatabaseAccess,
) -> Result<DatabaseAddress, String> {
    match address {
        DatabaseAddress::Sqlite(path) => check_file(&path, access).map(DatabaseAddress::Sqlite),
        DatabaseAddress::Postgres(postgres) => check_server(postgres, access).await.map(DatabaseAddress::Postgres),
    }
}

/// Checks the IP addresses of a host. Replaces the host name by a permitted address, so that a second DNS lookup cannot
/// return another address. With `verify-full` the name is kept, because the certificate proves that the server has this
/// name.
async fn check_server(mut address: PostgresAddress, access: &DatabaseAccess) -> Result<PostgresAddress, String> {
    let found: Vec<IpAddr> = match address.host.parse() {
        Ok(literal) => vec![literal],
        Err(_) => {
            let unknown = |error| format!("the host `{}` cannot be resolved: {error}", address.host);
            SystemDnsResolver.lookup(address.host.clone()).await.map_err(unknown)?
        }
    };
    let refused = |found: IpAddr| {
        format!(
            "`{}` resolves to {found}, which is not a public address; list its network in TOOLWRIGHT_EGRESS_ALLOW to permit it",
            address.host
        )
    };
    let (allowed, others): (Vec<IpAddr>, Vec<IpAddr>) =
        found.into_iter().partition(|found| access.egress.permits(*found));
    match (allowed.first(), others.first()) {
        (None, None) => Err(format!("the host `{}` has no address", address.host)),
        (None, Some(other)) => Err(refused(*other)),
        (Some(_), Some(other)) if address.tls == TlsMode::VerifyFull => Err(refused(*other)),
        (Some(_), _) if address.tls == TlsMode::VerifyFull => Ok(address),
        (Some(first), _) => {
            address.host = first.to_string();
            Ok(address)
        }
    }
}

/// Returns the canonical path of a file in the SQLite folder. A symbolic link to a file outside of the folder is
/// rejected.
fn check_file(path: &Path, access: &DatabaseAccess) -> Result<PathBuf, String> {
    let Some(folder) = &access.sqlite_folder else {
        return Err(
            "SQLite files are disabled on this server; the operator enables them with TOOLWRIGHT_SQLITE_FOLDER"
                .to_owned(),
        );
    };
    let unusable = |_| "the folder for SQLite files does not exist".to_owned();
    let folder = folder.canonicalize().map_err(unusable)?;
    // The message is the same in all cases, so that it does not reveal which files exist on this machine.
    let missing = || "there is no such file in the folder for SQLite files".to_owned();
    let file = folder.join(path).canonicalize().map_err(|_| missing())?;
    let own = access.own_folder.canonicalize().is_ok_and(|own| file.starts_with(own));
    if own || !file.starts_with(&folder) || !file.is_file() { Err(missing()) } else { Ok(file) }
}

/// Splits `schema.table`; the schema defaults to `public`.
pub(crate) fn schema_and_table(text: &str) -> (&str, &str) {
    text.split_once('.').unwrap_or(("public", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_urls_are_parsed_and_errors_do_not_quote_the_password() {
        for (url, expected) in [
            ("postgres://ann:s%40crt@db.example.com/shop", Ok("db.example.com:5432/shop ann Prefer")),
            ("postgresql://ann@[2606:4700::1]:6000", Ok("2606:4700::1:6000/ann ann Prefer")),
            ("postgres://ann:s@h/d?sslmode=verify-full", Ok("h:5432/d ann VerifyFull")),
            ("postgres://ann:s3cr3t@h/d?host=/tmp", Err("sslmode")),
            ("postgres://ann:s3cr3t@h/d?sslmode=allow", Err("verify-full")),
            ("postgres://ann:s3cr3t@%2Ftmp/d", Err("socket")),
            ("postgres:///d", Err("host")),
            ("postgres://h/d", Err("user")),
            ("mysql://ann:s3cr3t@h/d", Err("the URL of a database")),
            ("s3cr3t", Err("must be a URL")),
            ("sqlite:", Err("file is required")),
            ("sqlite::memory:", Err("path without parameters")),
            ("sqlite:a.db?mode=rwc", Err("path without parameters")),
        ] {
            match (parse(url), expected) {
                (Ok(DatabaseAddress::Postgres(found)), Ok(expected)) => {
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
    fn only_files_in_the_sqlite_folder_are_permitted() {
        let outside = tempfile::tempdir().unwrap();
        let (folder, own) = (outside.path().join("files"), outside.path().join("files/own"));
        std::fs::create_dir_all(&own).unwrap();
        for path in [outside.path().join("other.db"), folder.join("shop.db"), own.join("toolwright.db")] {
            std::fs::write(path, "").unwrap();
        }
        std::os::unix::fs::symlink(outside.path().join("other.db"), folder.join("link.db")).unwrap();
        let access =
            DatabaseAccess { sqlite_folder: Some(folder.clone()), own_folder: own, ..DatabaseAccess::default() };
        let permitted = |path: &str| check_file(Path::new(path), &access).is_ok();
        assert!(permitted("shop.db") && permitted(folder.join("shop.db").to_str().unwrap()));
        let absolute = outside.path().join("other.db");
        for path in
            ["../other.db", absolute.to_str().unwrap(), "link.db", "own/toolwright.db", "none.db", ".", "/etc/passwd"]
        {
            assert!(!permitted(path), "{path}");
        }
        assert!(
            check_file(Path::new("shop.db"), &DatabaseAccess::default())
                .unwrap_err()
                .contains("TOOLWRIGHT_SQLITE_FOLDER")
        );
    }

    #[tokio::test]
    async fn private_postgres_host_is_refused_unless_the_egress_policy_permits_it() {
        let address = |host: &str, tls: &str| match parse(&format!("postgres://a:b@{host}/d{tls}")) {
            Ok(DatabaseAddress::Postgres(address)) => address,
            other => panic!("{other:?}"),
        };
        let open = DatabaseAccess {
            egress: toolwright_tools::http::EgressPolicy::allowing([
                "127.0.0.0/8".parse().unwrap(),
                "::1/128".parse().unwrap(),
            ]),
            ..DatabaseAccess::default()
        };
        for host in ["127.0.0.1", "10.0.0.1", "localhost", "[::1]"] {
            let refused = check_server(address(host, ""), &DatabaseAccess::default()).await.unwrap_err();
            assert!(refused.contains("not a public address"), "{host}: {refused}");
        }
        let pinned = check_server(address("localhost", ""), &open).await.unwrap();
        assert!(pinned.host.parse::<IpAddr>().is_ok(), "{}", pinned.host);
        assert_eq!(check_server(address("localhost", "?sslmode=verify-full"), &open).await.unwrap().host, "localhost");
    }
}
