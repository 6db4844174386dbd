# Attack: Carry data out by DNS: hundreds of random names below a domain that is not listed and below a wildcard, text records, and other
#   resolvers by UDP and TCP.
# Why it matters: A resolver passes each label to the owner of the domain.
# What must hold: Names without a rule and text records never leave; below a wildcard at most 256 do; no other resolver answers.
# Needs: probe
# Host: network

./probe tunnel other.test wild.test
