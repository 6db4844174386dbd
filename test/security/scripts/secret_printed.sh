# Attack: Print a secret: unchanged, in base64, in hexadecimal and percent-encoded, in one piece and byte by byte, on both outputs.
# Why it matters: Programs print their configuration by accident, and more people may read logs than may know the secret.
# What must hold: Each byte of the secret is an asterisk, and the output keeps its length.
# Needs: probe
# Host: secret
# Leaves: nothing

breach() { echo "BREACH: $*"; failed=1; }
failed=0

s=/run/secrets/API_TOKEN
[ "$(wc -c <$s)" -ge 20 ] || breach "control: there is no secret"
cat $s
cat $s >&2
printf 'Authorization: Bearer %s\n' "$(cat $s)"
base64 $s
(printf 'user:' && cat $s) | base64
./probe printed "$(cat $s)" || failed=1
exit $failed
