# Attack: Send requests at once, of which one is for another host.
# Why it matters: Only the first one may have been looked at.
# What must hold: Those before it are answered, and nothing after it.
# Needs: probe
# Host: brokered
# Leaves: nothing

./probe brokered pipeline
