# Attack: Send a header of the secret's name: twice, in odd spellings, as a trailer, as a header of the connection.
# Why it matters: Servers differ in which of two headers they take, and the program's own could be the one.
# What must hold: The host gets the secret's header once, and nothing of the program's.
# Needs: probe
# Host: brokered
# Leaves: nothing

./probe brokered header
