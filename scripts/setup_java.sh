#!/usr/bin/env bash
# setup_java.sh : makes sure that Spark will find Java 17 or newer.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
needed=17

# Spark asks JAVA_HOME first, then the PATH: so does this.
java_command() {
    if [ -n "${JAVA_HOME:-}" ]; then
        echo "$JAVA_HOME/bin/java"
    else
        command -v java || true
    fi
}

# The major version of the Java that Spark would run, 0 if there is none. "1.8.0" is 8.
java_version() {
    local java line
    java=$(java_command)
    [ -n "$java" ] && [ -x "$java" ] || { echo 0; return; }
    line=$("$java" -version 2>&1 | grep -m1 -E 'version "[0-9]+' || true)
    [[ $line =~ version\ \"(1\.)?([0-9]+) ]] && echo "${BASH_REMATCH[2]}" || echo 0
}

found=$(java_version)
[ "$found" -ge "$needed" ] && exit 0

if [ -n "${JAVA_HOME:-}" ]; then
    echo "JAVA_HOME is $JAVA_HOME, which is not Java $needed or newer; unset it or point it to one." >&2
    exit 1
fi

for package in openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless; do
    if "$here/apt_install.sh" "$package" && [ "$(java_version)" -ge "$needed" ]; then
        exit 0
    fi
done

echo "Spark needs Java $needed or newer. Install one, then run this again:" >&2
echo "  Debian, Ubuntu: sudo apt-get install openjdk-17-jre-headless   (or openjdk-21-jre-headless)" >&2
echo "  elsewhere: any OpenJDK $needed or 21, with JAVA_HOME set to it" >&2
exit 1
