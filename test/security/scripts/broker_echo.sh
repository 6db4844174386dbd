# Attack: Have the host send the secret back: in headers, cookies, trailers, chunks of one byte, compressed, encoded.
# Why it matters: Many APIs repeat what they got, in errors above all.
# What must hold: The program reads asterisks, and no answer in which nobody can look.
# Needs: probe
# Host: brokered
# Leaves: nothing

./probe brokered echo
