# Attack: In a ready sandbox without rules, use what a sandbox like it had under its rules: names, addresses, proxy, resolver.
# Why it matters: A ready sandbox does not know its user yet.
# What must hold: No server listens, no name exists, and no variable names a proxy.
# Needs: probe
# Host: blank

failed=0
[ -z "$BELLJAR_PROXY$HTTP_PROXY$HTTPS_PROXY$http_proxy$https_proxy$ALL_PROXY" ] || { echo "BREACH: a proxy"; failed=1; }
./probe dial tcp:127.64.0.2:80 tcp:127.64.0.2:443 tcp:127.0.0.53:1080 tcp:127.0.0.53:53 "tcp:$LANE_PEER:80" tcp:api.test:80 || failed=1
./probe resolve api.test other.test || failed=1
exit $failed
