# Attack: Send several requests at once, one of them for another host.
# Why it matters: A proxy may inspect only the first request.
# What must hold: The requests before it are answered; it and all later ones are not.
# Needs: probe
# Host: brokered
# Leaves: nothing

./probe brokered pipeline
