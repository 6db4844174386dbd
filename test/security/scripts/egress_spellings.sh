# Attack: Name other hosts in ways that two parsers read differently: NUL, line ends, percent signs, dots, other scripts, 300 bytes.
# Why it matters: A proxy that checks one name and connects to another has checked nothing.
# What must hold: None of them is accepted as a name, through the proxy or by DNS; no outside resolver receives a query.
# Needs: probe
# Host: network
# Leaves: nothing

./probe spellings
