# Attack: Leave processes that changed session, lost their parent and ignore signals.
# Why it matters: A miner that outlives its run is the purpose of such a program.
# What must hold: No process survives the end of the run.
# Needs: probe

for n in 1 2 3 4 5; do ./probe survive; done
(trap '' TERM HUP INT; setsid sleep 1000 >/dev/null 2>&1 </dev/null &)
echo left
