# Attack: Leave symbolic links to files of the host where artifacts are captured, and swap a file for a link
#   meanwhile.
# Why it matters: A host that opens a sandbox's files by path may read its own files (Judge0, CVE-2024-28185).
# What must hold: Links are listed as links and never followed; no artifact holds a file of the host.
# Needs: probe
# Run: --capture ** --capture **/*
# Host: artifacts swapping

ln -s /etc/passwd absolute
ln -s ../../../../etc/shadow relative
ln -s /proc/1/environ environment
ln -s / root
ln -s loop loop
mkdir folder && ln -s /etc folder/etc
ln -s "$BAIT" bait
echo honest >plain
pairs= target=$BAIT
for n in 1 2 3 4 5 6 7 8; do # with more bytes than their targets, because a file that grows is not kept
	yes honest | head -n 1000 >twin$n && ln -s "$target" twin-link$n && pairs="$pairs twin$n twin-link$n"
	[ $n != 4 ] || target=/etc/passwd
done
setsid ./probe swap $pairs >/dev/null 2>&1 & # it continues in the session, also while files are captured
true
