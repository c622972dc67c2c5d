"""Builds a Python wheel that carries the toolwright binary, so that `uvx toolwright` and `pip install toolwright` work.

    python3 packaging/build_wheel.py BINARY VERSION PLATFORM OUTPUT_DIR

The wheel has no Python code: the binary is one of its scripts. PLATFORM is the platform tag, for example
`manylinux_2_17_x86_64.musllinux_1_1_x86_64` for a static binary.
"""

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

EXECUTABLE = 0o100755
FILE = 0o100644
# The same bytes for the same binary: a wheel has no time of its own.
TIME = (2026, 1, 1, 0, 0, 0)


def main(binary: Path, version: str, platform: str, output: Path) -> None:
    """Writes the wheel and prints its path."""
    root = Path(__file__).parent.parent
    info = f"toolwright-{version}.dist-info"
    tags = "".join(f"Tag: py3-none-{tag}\n" for tag in platform.split("."))
    files = [
        (f"toolwright-{version}.data/scripts/toolwright", binary.read_bytes(), EXECUTABLE),
        (f"{info}/METADATA", metadata(version, (root / "packaging/README.md").read_text()).encode(), FILE),
        (f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: toolwright\nRoot-Is-Purelib: false\n{tags}".encode(), FILE),
        (f"{info}/licenses/LICENSE", (root / "LICENSE").read_bytes(), FILE),
    ]
    record = "".join(f"{name},sha256={digest(data)},{len(data)}\n" for name, data, _ in files)
    files.append((f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode(), FILE))
    output.mkdir(parents=True, exist_ok=True)
    path = output / f"toolwright-{version}-py3-none-{platform}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data, mode in files:
            entry = zipfile.ZipInfo(name, TIME)
            entry.external_attr = mode << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    print(path)


def metadata(version: str, readme: str) -> str:
    """Returns the core metadata of the package."""
    return (
        "Metadata-Version: 2.4\n"
        "Name: toolwright\n"
        f"Version: {version}\n"
        "Summary: A self-hosted runtime for agent tools, in one binary\n"
        "License-Expression: Apache-2.0\n"
        "License-File: LICENSE\n"
        "Requires-Python: >=3.8\n"
        "Description-Content-Type: text/markdown\n"
        f"\n{readme}"
    )


def digest(data: bytes) -> str:
    """Returns the SHA-256 digest in the encoding of RECORD files."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit("usage: build_wheel.py BINARY VERSION PLATFORM OUTPUT_DIR")
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4]))
