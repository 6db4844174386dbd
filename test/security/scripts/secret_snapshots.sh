# Attack: Include a secret in a snapshot and in a fork of its session: by links to it, to its folder, and to what leads there.
# Why it matters: A snapshot is kept, and other sessions begin with it.
# What must hold: Neither contains the secret or its name.
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
