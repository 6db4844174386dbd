# Attack: Ask for a signal at each use of a folder of the host (F_NOTIFY), with each of thousands of descriptors, and lease files.
# Why it matters: The process that uses a file sends the signals: with 8,000 descriptors each read of a file in the host's /usr took 15 ms
#   instead of 0.5 µs. A lease delays each process that opens the file by 45 s.
# What must hold: Both are refused.
# Needs: probe
# Leaves: nothing

./probe notify
