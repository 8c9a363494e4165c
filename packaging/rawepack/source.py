# SPDX-License-Identifier: BSD-3-Clause
"""The source package: the tree as upstream's tarball, and debian/ beside it.

debian/ is kept in packaging/ and not at the top of the tree, where Debian's own would have to
replace it file by file.
"""

import email.utils
import re
import shutil
import tarfile

from rawelint import tree

from .errors import PackError

DEBIAN = "packaging/debian"


def _upstream_version(root):
    configure = (root / "configure.ac").read_text(encoding="utf-8")
    return re.search(r"AC_INIT\(\[rawe\], \[([^]]+)\]\)", configure).group(1)


def _strip(log):
    """A filter for tarfile, so that the same files give the same tarball: they are root's, and as
    old as the first entry of the changelog."""
    date = re.search(r"^ -- .*>  (.*)$", log, re.MULTILINE).group(1)
    seconds = int(email.utils.parsedate_to_datetime(date).timestamp())

    def strip(member):
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        member.mtime = seconds
        return member

    return strip


def unpack(root, directory, release):
    """Make rawe_VERSION.orig.tar.gz in `directory`, and the source package's tree beside it.

    `release` ends the package's version: packages for two releases of Debian differ, as their
    Open MPIs do. Returns the tree.
    """
    version = _upstream_version(root)
    log = (root / DEBIAN / "changelog").read_text(encoding="utf-8")
    if not log.startswith(f"rawe ({version}-"):
        raise PackError(
            f"configure.ac has version {version}, and the first line of {DEBIAN}/changelog is "
            f"{log.splitlines()[0]!r}: add an entry there"
        )
    archive = directory / f"rawe_{version}.orig.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for path in tree.files(root):
            tar.add(root / path, f"rawe-{version}/{path}", filter=_strip(log))
    with tarfile.open(archive) as tar:
        tar.extractall(directory)
    source = directory / f"rawe-{version}"
    debian = source / "debian"
    shutil.copytree(source / DEBIAN, debian)
    shutil.copy(source / "LICENSE", debian / "copyright")
    head, _, rest = log.partition(")")
    (debian / "changelog").write_text(f"{head}~{release}){rest}", encoding="utf-8")
    return source
