# Attack: Keep what a session could reach before its rules became narrower: open and half-open connections, connections through the proxy,
#   addresses.
# Why it matters: An operator who takes a permission away expects it to end at once.
# What must hold: Connections that the rules no longer allow are cut, no new ones open, and allowed ones continue.
# Needs: probe
# Host: narrowed

./probe narrowed
