# Attack: Leave symbolic links to files of the host where artifacts are captured, and swap a file for a link
#   meanwhile.
# Why it matters: A host that opens a sandbox's files by path may read its own files (Judge0, CVE-2024-28185).
# What must hold: Links are listed as links and never followed; no artifact holds a file of the host.
# Needs: probe
# Run: --capture ** --capture **/*
# Host: artifacts

ln -s /etc/passwd absolute
ln -s ../../../../etc/shadow relative
ln -s /proc/1/environ environment
ln -s / root
ln -s loop loop
mkdir folder && ln -s /etc folder/etc
ln -s "$BAIT" bait
echo honest >plain
echo honest >twin && ln -s "$BAIT" twin-link
setsid ./probe swap twin twin-link >/dev/null 2>&1 &
true
