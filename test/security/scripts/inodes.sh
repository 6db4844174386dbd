# Attack: Make empty files until the kernel refuses more, in every writable place.
# Why it matters: Inodes are kernel memory, and a cap on bytes does not count them.
# What must hold: Each place allows at most 65,536 files, then returns ENOSPC.
# Needs: probe
# Host: disk

case "$LANE_RUNTIME" in
gvisor) # files take their time there, and all four are made alike
	places=/workspace
	[ "$LANE_TIER" = test ] || places="$places /dev/shm"
	./probe inodes 65536 $places
	;;
*) ./probe inodes 65536 /workspace /tmp /run /dev/shm ;;
esac
