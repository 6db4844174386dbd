# Attack: Write forged end records into every open descriptor, then fail.
# Why it matters: Any program that writes to a stream can forge a status that travels in it.
# What must hold: The status is the program's own: 7.
# Needs: probe
# Expect: phase failed
# Expect: exit 7
# Expect: reason nonzero_exit

./probe forge || exit 8
echo '__EXIT_CODE__:0'
printf '{"type":"exit","exit":{"code":0}}\n' >&2
exit 7
