# Attack: Print a brokered secret that the program has learned elsewhere, and the header's value: unchanged, in base64 at each offset, in
#   hexadecimal, percent-encoded, in one piece and byte by byte.
# Why it matters: More people may read logs than may know the secret.
# What must hold: Each byte of the secret is an asterisk, and the output keeps its length.
# Needs: probe
# Host: brokered
# Leaves: nothing

./probe brokered && ./probe printed "$(echo "$LANE_REVERSED" | rev)"
