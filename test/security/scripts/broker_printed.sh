# Attack: Print a brokered secret that the program knows all the same, and the header's value: as they are, in base64 at each offset,
#   in hexadecimal, percent-encoded, in one piece and byte by byte.
# Why it matters: A program may learn it from elsewhere, and logs are read by more people than may know it.
# What must hold: Each byte of it is an asterisk, and the output is as long as it was.
# Needs: probe
# Host: brokered
# Leaves: nothing

./probe brokered && ./probe printed "$(echo "$LANE_REVERSED" | rev)"
