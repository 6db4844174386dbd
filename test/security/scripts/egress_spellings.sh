# Attack: Name other hosts so that two readers may read two names: with NUL, line ends, percent signs, dots, other scripts, 300 bytes.
# Why it matters: Who checks one name and connects to another has checked nothing.
# What must hold: None of them is a name, by the proxy and by DNS; nobody outside is asked.
# Needs: probe
# Host: network
# Leaves: nothing

./probe spellings
