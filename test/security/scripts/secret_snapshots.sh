# Attack: Have a secret go along in a snapshot and in a fork of its session: by links to it, its folder, and what leads there.
# Why it matters: A snapshot is kept, and others begin with it.
# What must hold: Neither has the secret, nor a name of it.
# Host: secret-snapshots

breach() { echo "BREACH: $*"; failed=1; }
failed=0

s=/run/secrets/API_TOKEN
[ -s $s ] || breach "control: there is no secret"
echo plain >plain
ln -s $s link
ln -s /run/secrets folder
ln -s /proc/self/root$s through
ln $s copy 2>/dev/null && breach "the secret has a hard link"
mkdir run && ln -s /run/secrets run/secrets
exit $failed
