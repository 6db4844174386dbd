# Attack: Use up what the kernel counts for each user, in other sandboxes: room in pipes, descriptors in flight, watches of epoll.
# Why it matters: If sandboxes share a user, pipes of the others shrink to a page, and their messages with descriptors fail.
# What must hold: A neighbour keeps its own budget, and so does root of the host.
# Needs: probe
# Host: takes-pipes takes-flight takes-watches
# Not on: shared (all sandboxes of a user without subordinate ids run as that user; the table of budgets lists what they share)
# Leaves: nothing

for budget in pipes flight watches; do
	./probe use $budget 60 || exit
done
