# Attack: Take all inotify instances in another sandbox.
# Why it matters: The kernel gives each user 128; systemd, udev and kubelets need them.
# What must hold: A neighbour has its own, and so has root of the host.
# Needs: probe
# Host: takes-inotify
# Leaves: nothing

./probe use inotify 16
