# Attack: Keep what a session could reach before its rules became narrower: connections that are open, half open, by the proxy, addresses.
# Why it matters: Whoever takes a permission away wants it to be gone.
# What must hold: Connections that the rules do not allow are cut, nothing new begins, and what is still allowed goes on.
# Needs: probe
# Host: narrowed

./probe narrowed
