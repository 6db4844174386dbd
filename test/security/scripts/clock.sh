# Attack: Set the clock.
# Why it matters: The whole machine has one clock.
# What must hold: The call is refused.
# Needs: probe
# Leaves: nothing

./probe clock
