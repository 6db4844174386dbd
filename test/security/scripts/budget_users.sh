# Attack: Take what the kernel counts by the user of a process, in other sandboxes: room in pipes, descriptors in flight, watches of epoll.
# Why it matters: Where users are shared, pipes of others shrink to a page, and their messages with descriptors fail.
# What must hold: A neighbour has its own, and so has root of the host.
# Needs: probe
# Host: takes-pipes takes-flight takes-watches
# Not on: shared (all sandboxes of a user without subordinate ids are that user; the table of budgets says what they share)
# Leaves: nothing

for budget in pipes flight watches; do
	./probe use $budget 60 || exit
done
