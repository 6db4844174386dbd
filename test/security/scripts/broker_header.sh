# Attack: Send a header of the secret's name: twice, in odd spellings, as a trailer, as a header of the connection.
# Why it matters: Servers differ in which of two headers they use, and may use the program's own.
# What must hold: The host receives the secret's header once, and no header of that name from the program.
# Needs: probe
# Host: brokered
# Leaves: nothing

./probe brokered header
