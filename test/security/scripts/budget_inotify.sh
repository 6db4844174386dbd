# Attack: Use up all inotify instances in another sandbox.
# Why it matters: The kernel gives each user 128; systemd, udev and kubelets need them.
# What must hold: A neighbour can still make instances, and so can root of the host.
# Needs: probe
# Host: takes-inotify
# Leaves: nothing

./probe use inotify 16
