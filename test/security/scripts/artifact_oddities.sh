# Attack: Leave FIFOs, sockets, hard links, a huge sparse file and odd names where artifacts are captured.
# Why it matters: A FIFO blocks the process that opens it; a sparse file can be larger than any disk.
# What must hold: The run completes in time; only regular files within the cap are kept.
# Needs: probe
# Run: --capture ** --capture **/*
# Host: artifacts
# Not on: native-root-ready (a client of a server refuses to write such names)

mkfifo fifo
./probe bind socket || exit 1
rm probe
truncate -s 200M sparse
echo honest >plain && ln plain hardlink
ln /etc/passwd stolen 2>/dev/null
ln /bin/busybox stolen-su 2>/dev/null || ln /usr/bin/su stolen-su 2>/dev/null
printf x >"$(printf 'new\nline')"
printf x >"$(printf 'escape\033[31m')"
printf x >-rf
mkdir -p deep/$(seq -s/ 1 60)
true
