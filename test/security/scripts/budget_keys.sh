# Attack: Use up all kernel keys in another sandbox.
# Why it matters: The kernel allows each user 200, and root of the host holds those of file systems and logins.
# What must hold: A sandbox can make no key, and the host still can.
# Needs: probe
# Host: takes-keys
# Leaves: nothing

./probe use keys 0
