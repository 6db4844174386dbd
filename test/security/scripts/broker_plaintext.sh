# Attack: Ask a host with a brokered secret on port 80, and on 443 without TLS.
# Why it matters: On the way, everybody reads plain HTTP.
# What must hold: No request arrives, and no secret leaves.
# Needs: probe
# Host: brokered
# Leaves: nothing

./probe brokered plaintext
