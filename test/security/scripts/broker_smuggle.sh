# Attack: Hide a request in the body of another one: two lengths, two encodings, an odd chunk.
# Why it matters: Two parsers that see different ends see different requests.
# What must hold: The hidden request does not arrive.
# Needs: probe
# Host: brokered
# Leaves: nothing

./probe brokered smuggle
