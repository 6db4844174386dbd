# Attack: Set the clock.
# Why it matters: There is one clock for all.
# What must hold: Refused.
# Needs: probe
# Leaves: nothing

./probe clock
