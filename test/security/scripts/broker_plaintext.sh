# Attack: Send requests to a host with a brokered secret on port 80, and on 443 without TLS.
# Why it matters: Anyone on the network path can read plain HTTP.
# What must hold: No request arrives, and no secret leaves.
# Needs: probe
# Host: brokered
# Leaves: nothing

./probe brokered plaintext
