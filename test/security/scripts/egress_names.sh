# Attack: Look up and connect to names that no rule allows: others, look-alikes, the apex of a wildcard, spellings of an address.
# Why it matters: Anyone can register a name that resembles an allowed one.
# What must hold: They do not exist, by DNS and through the proxy; no outside resolver receives a query.
# Needs: probe
# Host: network
# Leaves: nothing

./probe names other.test api.test.other.test xapi.test api.test.wild.test.other.test wild.test notwild.test a.pinned.test \
	dns.google one.one.one.one use-application-dns.net _dns.resolver.arpa \
	www.api.test api-test 127.1 0x7f000001 2130706433 'api.test%00.other.test' xn--pi-6kc.test
