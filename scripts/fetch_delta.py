"""Makes sure that Spark can load Delta Lake: fetched once, kept in the user's own cache.

Spark resolves packages with Ivy. Where Ivy does not get through (it reads neither Maven's settings nor all
proxies), Maven fetches them into its local repository, where Ivy looks too.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

from viewkeep.engines.spark.delta_package import DELTA_PACKAGE

_GROUP, _ARTIFACT, _VERSION = DELTA_PACKAGE.split(":")
_APT_INSTALL = Path(__file__).with_name("apt_install.sh")
_SECONDS = 900

_HELP = f"""Spark cannot load {DELTA_PACKAGE}; what it said is above.
Is there a way to Maven Central from here? With Maven installed and configured, this fetches it too:
  mvn dependency:get -Dartifact={DELTA_PACKAGE}"""

# A session does not start without its packages. It runs in a process of its own: a gateway that failed to
# start cannot be started again, and its output is long.
_TRY = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").appName("fetch Delta Lake")
builder = builder.config("spark.ui.enabled", "false").config("spark.jars.packages", sys.argv[1])
builder.getOrCreate().stop()
"""


def main() -> int:
    """The exit status: 0 where Spark can load Delta Lake."""
    if _is_cached():
        return 0
    print(f"fetching {DELTA_PACKAGE} (once; about 50 MB)", flush=True)
    problem = _try_spark()
    if problem and _fetch_with_maven():
        problem = _try_spark()
    if problem:
        print(f"{problem}\n\n{_HELP}", file=sys.stderr)
        return 1
    return 0


def _is_cached() -> bool:
    """Whether Ivy has resolved the package before: it writes to jars/ when it has all that is needed."""
    jar = f"{_GROUP}_{_ARTIFACT}-{_VERSION}.jar"
    record = f"cache/{_GROUP}/{_ARTIFACT}/ivy-{_VERSION}.xml"
    # Java takes the home directory from the user's account, whatever HOME says
    homes = {Path.home(), Path(pwd.getpwuid(os.getuid()).pw_dir)}
    caches = [cache for home in homes for cache in home.glob(".ivy2*")]
    return any((cache / "jars" / jar).is_file() and (cache / record).is_file() for cache in caches)


def _try_spark() -> str:
    """Starts Spark with the package; what went wrong, or nothing."""
    return _run([sys.executable, "-c", _TRY, DELTA_PACKAGE])


def _fetch_with_maven() -> bool:
    if shutil.which("mvn") is None and _run([str(_APT_INSTALL), "maven"]):
        return False
    print("Spark did not get it; trying Maven", flush=True)
    return not _run(["mvn", "--batch-mode", "--quiet", "dependency:get", f"-Dartifact={DELTA_PACKAGE}"])


def _run(command: list[str]) -> str:
    """Runs a command; its output where it failed, else an empty string."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        return str(problem)
    return "" if done.returncode == 0 else done.stdout.strip() or f"exit status {done.returncode}"


if __name__ == "__main__":
    sys.exit(main())
