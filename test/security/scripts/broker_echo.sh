# Attack: Make the host send the secret back: in headers, cookies, trailers, chunks of one byte, compressed, encoded.
# Why it matters: Many APIs repeat what they received, most often in errors.
# What must hold: The program reads asterisks, and receives no answer that Belljar cannot inspect.
# Needs: probe
# Host: brokered
# Leaves: nothing

./probe brokered echo
