# Attack: Reach another machine: public addresses, the cloud's metadata service, a resolver; add a route.
# Why it matters: A program that can send data out can leak everything it sees.
# What must hold: The only interface is lo, no route can be added, and no name resolves.
# Needs: probe
# Leaves: nothing

breach() { echo "BREACH: $*"; failed=1; }
failed=0

./probe dial tcp:1.1.1.1:443 tcp:169.254.169.254:80 tcp:10.0.0.1:22 udp:8.8.8.8:53 'tcp:[2606:4700:4700::1111]:443' tcp:example.com:80 || failed=1
./probe netlink || failed=1
[ "$(wc -l </proc/net/route)" = 1 ] || breach "there are routes"
./probe resolve example.com metadata.google.internal || failed=1
exit $failed
