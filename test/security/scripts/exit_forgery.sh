# Attack: Write what looks like an ending into every open descriptor, then fail.
# Why it matters: A status that travels in a stream can be forged by any program that writes to it.
# What must hold: The status is the program's own: 7.
# Needs: probe
# Expect: phase failed
# Expect: exit 7
# Expect: reason nonzero_exit

./probe forge
echo '__EXIT_CODE__:0'
printf '{"type":"exit","exit":{"code":0}}\n' >&2
exit 7
