# Attack: Capture a secret as an artifact: by symbolic links to the file and to its folder, by a hard link, and by a link that is swapped.
# Why it matters: Artifacts leave the sandbox, and are kept.
# What must hold: Links are listed as links and never followed; the folder of secrets is on another file system.
# Needs: probe
# Run: --capture ** --capture **/*
# Host: artifacts secret swapping

breach() { echo "BREACH: $*"; failed=1; }
failed=0

s=/run/secrets/API_TOKEN
[ -s $s ] || breach "control: there is no secret"
ln -s $s link
ln -s ../run/secrets/API_TOKEN relative
ln -s /run/secrets folder
ln -s /proc/self/root/run/secrets through
ln $s hard 2>/dev/null && breach "the secret has a hard link"
echo honest >plain
pairs=
for n in 1 2 3 4 5 6 7 8; do # with more bytes than the secret, because a file that grows is not kept
	yes honest | head -n 1000 >twin$n && ln -s $s twin-link$n && pairs="$pairs twin$n twin-link$n"
done
setsid ./probe swap $pairs >/dev/null 2>&1 & # it continues in the session, also while files are captured
exit $failed
