# Attack: Hide a request in the body of another one, by two lengths, two encodings, an odd chunk.
# Why it matters: Two readers that see different ends see different requests.
# What must hold: No hidden request arrives.
# Needs: probe
# Host: brokered
# Leaves: nothing

./probe brokered smuggle
