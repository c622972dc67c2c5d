//! The location of blobs, as an operator configures it.

use std::path::PathBuf;
use std::str::FromStr;

use object_store::path::Path;
use url::Url;

/// Where blobs are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlobLocation {
    /// Files in a folder.
    Folder(PathBuf),
    /// Objects in a bucket of S3 or of a compatible service.
    Bucket {
        /// The bucket.
        bucket: String,
        /// The start of the keys of all objects.
        prefix: Path,
    },
}

/// The error for a text that is not a valid location. The error does not repeat the text, because an invalid URL may
/// contain credentials.
#[derive(Debug, thiserror::Error)]
#[error("must be `s3://BUCKET/PREFIX` or `file:///PATH`: {0}")]
pub struct InvalidLocation(String);

impl FromStr for BlobLocation {
    type Err = InvalidLocation;

    fn from_str(text: &str) -> Result<Self, InvalidLocation> {
        let invalid = |problem: &str| InvalidLocation(problem.to_owned());
        let url = Url::parse(text).map_err(|error| InvalidLocation(error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("credentials are not allowed; set `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`"));
        }
        if url.query().is_some() || url.fragment().is_some() || url.port().is_some() {
            return Err(invalid("a port, `?` and `#` are not allowed; `AWS_ENDPOINT_URL` sets the server"));
        }
        match url.scheme() {
            "file" => {
                let folder = url.to_file_path().map_err(|()| invalid("the path must be absolute and have no host"))?;
                Ok(Self::Folder(folder))
            }
            "s3" => {
                let bucket = url.host_str().ok_or_else(|| invalid("the bucket is missing"))?.to_owned();
                let prefix = Path::from_url_path(url.path()).map_err(|error| InvalidLocation(error.to_string()))?;
                Ok(Self::Bucket { bucket, prefix })
            }
            other => Err(InvalidLocation(format!("the scheme is `{other}`"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_and_s3_urls_are_parsed_as_blob_locations() {
        let bucket = |prefix: &str| BlobLocation::Bucket { bucket: "store".to_owned(), prefix: Path::from(prefix) };
        let cases = [
            ("file:///var/lib/blobs", BlobLocation::Folder("/var/lib/blobs".into())),
            ("file:///a%20b", BlobLocation::Folder("/a b".into())),
            ("s3://store", bucket("")),
            ("s3://store/", bucket("")),
            ("s3://store/tools/blobs/", bucket("tools/blobs")),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<BlobLocation>().unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn invalid_blob_locations_are_rejected_without_repeating_credentials() {
        let cases = [
            ("/var/lib/blobs", "relative URL without a base"),
            ("gs://store", "the scheme is `gs`"),
            ("s3:///prefix", "the bucket is missing"),
            ("file://host/path", "the path must be absolute"),
            ("s3://key:hidden@store", "credentials are not allowed"),
            ("s3://store?region=eu", "`AWS_ENDPOINT_URL` sets the server"),
            ("s3://store:9000/x", "`AWS_ENDPOINT_URL` sets the server"),
        ];
        for (text, expected) in cases {
            let message = text.parse::<BlobLocation>().unwrap_err().to_string();
            assert!(message.contains(expected) && !message.contains("hidden"), "{text}: {message}");
        }
    }
}
