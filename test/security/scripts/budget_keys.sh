# Attack: Take all keys in another sandbox.
# Why it matters: The kernel gives each user 200, and root of the host holds those of file systems and logins.
# What must hold: A sandbox gets none, and the host has its own.
# Needs: probe
# Host: takes-keys
# Leaves: nothing

./probe use keys 0
